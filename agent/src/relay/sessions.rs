// SPDX-License-Identifier: Apache-2.0
//! Sessions of the head over one line. Each is an agent of its own, whose standard streams are
//! carried in frames.
//!
//! A guest's port has no flow control towards the guest, so every frame is acknowledged, and the
//! head never sends more than the terminal's buffer holds. Input that a session has not read yet
//! waits in memory, so that no session delays another.

use super::frames::{self, Line};
use super::Silence;
use crate::error::{Error, Kind, Result};
use rustix::process::{kill_process_group, Pid, Signal};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 1 << 14;
/// The head never sends longer frames.
const MOST_BYTES: usize = 1 << 16;
const HEADER_BYTES: usize = 5;
const NUMBER_BYTES: usize = 4;
/// This many bytes of a line show whether it is a reply.
const BEGIN_BYTES: usize = 64;
const LOOK: Duration = Duration::from_millis(20);

/// How sessions are started and ended.
pub struct Starter {
    /// The agent.
    pub program: PathBuf,
    /// User and group of sessions that do not run as root; none to run them as the present user.
    pub user: Option<u32>,
    /// How long sessions may take to end after the head has gone.
    pub patience: Duration,
    /// How long the head may be silent, if there is a limit.
    pub silence: Option<Arc<Silence>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    session: u32,
    arguments: Vec<String>,
    /// Whether it runs as root.
    root: bool,
    /// The command that starts it as root, such as `sudo -n --`.
    #[serde(default)]
    asker: Vec<String>,
}

struct Session {
    input: Option<Sender<Vec<u8>>>,
    group: Option<Pid>,
    progress: Arc<Progress>,
}

/// What a session has written so far.
#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: u64,
    /// Lines that end a request.
    replies: u64,
    /// The beginning of an incomplete line.
    begin: Vec<u8>,
    over: bool,
}

impl State {
    fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = BEGIN_BYTES - self.begin.len();
            self.begin.extend(part.iter().take(room));
            if part.ends_with(b"\n") {
                self.lines += 1;
                self.replies += u64::from(is_reply(&self.begin));
                self.begin.clear();
            }
        }
    }
}

/// Whether a line that begins like this ends a request: its first field, or the one after `id`, is
/// `ok` or `error`.
fn is_reply(begin: &[u8]) -> bool {
    let fields = begin.strip_prefix(b"{\"id\":").map_or(begin, |rest| {
        let digits = rest.iter().take_while(|byte| **byte != b',').count();
        &rest[digits..]
    });
    let name = fields.get(1..).unwrap_or_default();
    name.starts_with(b"\"ok\":") || name.starts_with(b"\"error\":")
}

impl Progress {
    fn take(&self, piece: &[u8]) {
        self.change(|state| state.take(piece));
    }

    fn end(&self) {
        self.change(|state| state.over = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).over
    }

    /// Waits until the count is reached, or nothing more can come.
    fn wait(&self, wanted: u64, counted: fn(&State) -> u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |state: &mut State| counted(state) < wanted && !state.over;
        drop(self.changed.wait_while(state, missing));
    }
}

/// Runs sessions until the head ends them all or disconnects.
pub fn attend(line: &Line, heard: impl Read, starter: &Starter) -> Result<()> {
    let mut sessions: HashMap<u32, Session> = HashMap::new();
    let done = converse(line, heard, starter, &mut sessions);
    let deadline = Instant::now() + starter.patience;
    for session in sessions.values_mut() {
        session.input = None;
    }
    while sessions.values().any(|session| !session.progress.over()) && Instant::now() < deadline {
        sleep(LOOK);
    }
    done
}

fn converse(
    line: &Line,
    mut heard: impl Read,
    starter: &Starter,
    sessions: &mut HashMap<u32, Session>,
) -> Result<()> {
    let broken = |error: io::Error| Error::io("read from", "the line to the head", &error);
    loop {
        let (kind, content) = frame(&mut heard).map_err(broken)?;
        let length = u32::try_from(HEADER_BYTES + content.len()).unwrap_or(u32::MAX);
        line.send(frames::TAKEN, &length.to_be_bytes())?;
        match kind {
            frames::END => return Ok(()),
            frames::START => {
                let wanted: Start = serde_json::from_slice(&content).map_err(|error| {
                    Error::new(
                        Kind::BadRequest,
                        format!("cannot parse the start of a session: {error}"),
                    )
                })?;
                if let Some(session) = start(starter, &wanted, line)? {
                    sessions.insert(wanted.session, session);
                }
            }
            frames::SILENCE | frames::NEXT_SILENCE => {
                let seconds = content.try_into().map(u32::from_be_bytes);
                let seconds =
                    seconds.map_err(|_| Error::new(Kind::Malformed, "a silence frame without a time"))?;
                match &starter.silence {
                    Some(silence) if kind == frames::SILENCE => silence.set(seconds),
                    Some(silence) => silence.set_next(seconds),
                    None => {}
                }
            }
            frames::WAIT | frames::REPLIES => {
                let wanted = numbered(&content)
                    .and_then(|(number, count)| Some((number, u32::from_be_bytes(count.try_into().ok()?))));
                let Some((number, count)) = wanted else {
                    return Err(Error::new(Kind::Malformed, "a wait frame without a count"));
                };
                let counted: fn(&State) -> u64 = match kind {
                    frames::WAIT => |state| state.lines,
                    _ => |state| state.replies,
                };
                // A session that is no longer listed has ended.
                if let Some(session) = sessions.get(&number) {
                    session.progress.wait(count.into(), counted);
                }
            }
            frames::INPUT | frames::KILL => {
                let Some((number, bytes)) = numbered(&content) else {
                    return Err(Error::new(Kind::Malformed, "a frame without a session number"));
                };
                if let (frames::INPUT, true, Some(silence)) = (kind, bytes.ends_with(b"\n"), &starter.silence)
                {
                    silence.heard_request();
                }
                if let Some(session) = sessions.get_mut(&number) {
                    session.take(kind, bytes);
                }
            }
            _ => return Err(Error::new(Kind::Malformed, format!("unknown frame kind {kind}"))),
        }
        sessions.retain(|_, session| !session.progress.over());
    }
}

fn frame(heard: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER_BYTES];
    heard.read_exact(&mut header)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if length > MOST_BYTES {
        return Err(io::Error::other(format!("a frame of {length} bytes is too long")));
    }
    let mut content = vec![0; length];
    heard.read_exact(&mut content)?;
    Ok((header[0], content))
}

/// Splits off a session's number.
fn numbered(content: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = content.split_first_chunk::<NUMBER_BYTES>()?;
    Some((u32::from_be_bytes(*number), rest))
}

impl Session {
    fn take(&mut self, kind: u8, bytes: &[u8]) {
        if kind == frames::KILL {
            if let (Some(group), false) = (self.group, self.progress.over()) {
                // It may have ended in the meantime.
                let _ = kill_process_group(group, Signal::KILL);
            }
        } else if bytes.is_empty() {
            self.input = None;
        } else if let Some(input) = &self.input {
            // A session that has ended takes no more input.
            let _ = input.send(bytes.to_vec());
        }
    }
}

/// Starts an agent; if that fails, reports its end at once.
fn start(starter: &Starter, wanted: &Start, line: &Line) -> Result<Option<Session>> {
    let mut command = Command::new(wanted.asker.first().map_or(starter.program.as_path(), Path::new));
    if wanted.asker.is_empty() {
        command.arg0("ktrial-agent");
    } else {
        command.args(&wanted.asker[1..]).arg(&starter.program);
    }
    command
        .args(&wanted.arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0);
    if let (false, Some(user)) = (wanted.root, starter.user) {
        command.uid(user).gid(user);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let report = json!({"session": wanted.session, "unstarted": error.to_string()});
            line.say(frames::OVER, &report)?;
            return Ok(None);
        }
    };
    let progress = Arc::new(Progress::default());
    let (input, pieces) = channel();
    if let Some(stdin) = child.stdin.take() {
        spawn(move || feed(&pieces, stdin));
    }
    let session = Session {
        input: Some(input),
        group: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
        progress: Arc::clone(&progress),
    };
    let (line, number, silence) = (line.clone(), wanted.session, starter.silence.clone());
    spawn(move || carry(child, &line, number, &progress, silence.as_deref()));
    Ok(Some(session))
}

/// Writes the input in order, and closes it when there is no more.
fn feed(pieces: &Receiver<Vec<u8>>, mut stdin: ChildStdin) {
    while let Ok(piece) = pieces.recv() {
        if stdin.write_all(&piece).and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
}

/// Sends the session's output, then how it ended.
fn carry(mut child: Child, line: &Line, number: u32, so_far: &Progress, silence: Option<&Silence>) {
    if let Some(mut from) = child.stdout.take() {
        let mut piece = vec![0; NUMBER_BYTES + PIECE_BYTES];
        piece[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        while let Ok(count @ 1..) = from.read(&mut piece[NUMBER_BYTES..]) {
            if line.send(frames::SAID, &piece[..NUMBER_BYTES + count]).is_err() {
                break;
            }
            so_far.take(&piece[NUMBER_BYTES..NUMBER_BYTES + count]);
            if let Some(silence) = silence {
                silence.answered();
            }
        }
    }
    let ended = child.wait();
    let mut report = ended.map_or_else(|error| json!({"unknown": error.to_string()}), ending);
    report["session"] = json!(number);
    // If this fails the head is gone and the guest ends.
    let _ = line.say(frames::OVER, &report);
    so_far.end();
}

/// How a program ended, in the words of the `ENDED` and `OVER` frames.
pub fn ending(status: ExitStatus) -> Value {
    match (status.code(), status.signal()) {
        (Some(code), _) => json!({ "status": code }),
        (None, signal) => json!({ "signal": signal }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starter() -> Starter {
        Starter {
            program: "/bin/cat".into(),
            user: None,
            patience: Duration::ZERO,
            silence: None,
        }
    }

    fn bytes(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut whole = vec![kind];
        whole.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        whole.extend(content);
        whole
    }

    fn said_after(input: &[u8]) -> (Result<()>, Vec<u8>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let done = attend(&Line::new(file.reopen().unwrap()), input, &starter());
        (done, std::fs::read(file.path()).unwrap())
    }

    #[test]
    fn every_frame_is_acknowledged_with_its_length() {
        let mut input = bytes(frames::INPUT, b"\0\0\0\x07abc");
        input.extend(bytes(frames::END, b""));
        let (done, said) = said_after(&input);
        done.unwrap();
        let mut wanted = bytes(frames::TAKEN, &12_u32.to_be_bytes());
        wanted.extend(bytes(frames::TAKEN, &5_u32.to_be_bytes()));
        assert_eq!(said, wanted);
    }

    #[test]
    fn nothing_more_is_taken_until_a_session_said_so_many_lines_or_ended() {
        let (agent, head) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
        let (done, ended) = channel();
        for (progress, lines) in [(Arc::clone(&agent), 2), (Arc::clone(&head), u64::MAX)] {
            let done = done.clone();
            spawn(move || {
                progress.wait(lines, |state| state.lines);
                done.send(lines).unwrap();
            });
        }
        agent.take(b"{\n{");
        assert!(ended.recv_timeout(std::time::Duration::from_millis(50)).is_err());
        agent.take(b"}\n");
        assert_eq!(ended.recv().unwrap(), 2);
        head.end();
        assert_eq!(ended.recv().unwrap(), u64::MAX);
        assert!(head.over() && !agent.over());
    }

    #[test]
    fn what_is_told_while_a_request_goes_on_is_no_reply() {
        let mut state = State::default();
        let told = [
            json!({"id": 1, "ok": {"begun": true}}),
            json!({"id": 12, "begun": true}),
            json!({"id": 12, "chunk": "\"ok\":"}),
            json!({"id": 12, "seen": {"ok": 1}}),
            json!({"id": null, "error": {"ok": "x".repeat(100)}}),
            json!({"id": 12, "ok": {}}),
        ];
        for value in told {
            // As it comes: in pieces that end anywhere.
            let text = format!("{value}\n");
            let (one, other) = text.as_bytes().split_at(text.len() / 2);
            state.take(one);
            state.take(other);
        }
        assert_eq!((state.lines, state.replies), (6, 3));
    }

    #[test]
    fn a_wait_for_a_session_that_is_gone_is_over_at_once() {
        for kind in [frames::WAIT, frames::REPLIES] {
            let mut input = bytes(kind, b"\0\0\0\x07\0\0\0\x01");
            input.extend(bytes(frames::END, b""));
            said_after(&input).0.unwrap();
        }
    }

    #[test]
    fn a_longer_silence_waits_for_the_end_of_a_request() {
        let frozen_after = |request: &[u8]| {
            let silence = Arc::new(Silence::new(1).unwrap());
            let starter = Starter {
                silence: Some(Arc::clone(&silence)),
                ..starter()
            };
            let mut input = bytes(frames::NEXT_SILENCE, &3600_u32.to_be_bytes());
            input.extend(bytes(frames::INPUT, &[b"\0\0\0\x07", request].concat()));
            let file = tempfile::NamedTempFile::new().unwrap();
            let line = Line::new(file.reopen().unwrap());
            attend(&line, input.as_slice(), &starter).unwrap_err();
            silence.seconds()
        };
        assert_eq!(frozen_after(b"{\"id\":1"), 1);
        assert_eq!(frozen_after(b"{\"id\":1}\n"), 3600);
    }

    #[test]
    fn what_is_no_frame_ends_the_sessions() {
        for bad in [
            bytes(b'?', b""),
            bytes(frames::INPUT, b"abc"),
            bytes(frames::START, b"{}"),
            bytes(frames::WAIT, b"\0\0\0\x07\0"),
            vec![frames::INPUT, 0xff, 0xff, 0xff, 0xff],
            vec![frames::INPUT, 0],
        ] {
            assert!(said_after(&bad).0.is_err(), "{bad:?}");
        }
    }
}
