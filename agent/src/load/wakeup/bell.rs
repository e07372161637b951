// SPDX-License-Identifier: Apache-2.0
//! What wakes a sleeper: a rope to ring with, and ears that wait for the ring.

use super::Means;
use rustix::event::{epoll, eventfd, EventfdFlags};
use rustix::fd::OwnedFd;
use rustix::io::{read, retry_on_intr, write, Errno};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::thread::futex;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The side that rings.
pub trait Rope: Send {
    /// Rings once. Unheard rings add up.
    fn ring(&self) -> io::Result<()>;
}

/// The side that listens.
pub trait Ears: Send {
    /// Sleeps until there is a ring. Returns the number of rings since the last call; 0 if no more
    /// can come.
    fn wait(&mut self) -> io::Result<u64>;
}

type Bell = (Box<dyn Rope>, Box<dyn Ears>);

/// Creates a bell; None for a timer.
pub fn bell(kind: Means) -> io::Result<Option<Bell>> {
    Ok(match kind {
        Means::Timer => None,
        Means::Futex => {
            let rung = Arc::new(AtomicU32::new(0));
            let ears = FutexEars {
                rung: Arc::clone(&rung),
                heard: 0,
            };
            Some((Box::new(FutexRope { rung }), Box::new(ears)))
        }
        Means::Pipe => {
            let (ears, rope) = pipe_with(PipeFlags::CLOEXEC)?;
            Some((Box::new(PipeRope(rope)), Box::new(PipeEars(ears))))
        }
        Means::Eventfd => {
            let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(
                &epoll,
                &event,
                epoll::EventData::new_u64(0),
                epoll::EventFlags::IN,
            )?;
            let ears = EventEars {
                event: Arc::clone(&event),
                epoll,
            };
            Some((Box::new(EventRope(event)), Box::new(ears)))
        }
    })
}

struct FutexRope {
    rung: Arc<AtomicU32>,
}

impl Rope for FutexRope {
    fn ring(&self) -> io::Result<()> {
        self.rung.fetch_add(1, Ordering::Release);
        futex::wake(&self.rung, futex::Flags::PRIVATE, 1)?;
        Ok(())
    }
}

struct FutexEars {
    rung: Arc<AtomicU32>,
    heard: u32,
}

impl Ears for FutexEars {
    fn wait(&mut self) -> io::Result<u64> {
        loop {
            let rung = self.rung.load(Ordering::Acquire);
            if rung != self.heard {
                let new = rung.wrapping_sub(self.heard);
                self.heard = rung;
                return Ok(u64::from(new));
            }
            match futex::wait(&self.rung, futex::Flags::PRIVATE, rung, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

struct PipeRope(OwnedFd);

impl Rope for PipeRope {
    fn ring(&self) -> io::Result<()> {
        retry_on_intr(|| write(&self.0, b"!"))?;
        Ok(())
    }
}

struct PipeEars(OwnedFd);

impl Ears for PipeEars {
    fn wait(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 4096];
        let read = retry_on_intr(|| read(&self.0, &mut bytes))?;
        Ok(read as u64)
    }
}

struct EventRope(Arc<OwnedFd>);

impl Rope for EventRope {
    fn ring(&self) -> io::Result<()> {
        retry_on_intr(|| write(&*self.0, &1_u64.to_ne_bytes()))?;
        Ok(())
    }
}

struct EventEars {
    event: Arc<OwnedFd>,
    epoll: OwnedFd,
}

impl Ears for EventEars {
    fn wait(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        loop {
            let mut events = [const { MaybeUninit::uninit() }; 1];
            retry_on_intr(|| epoll::wait(&self.epoll, &mut events, None).map(|_| ()))?;
            match read(&*self.event, &mut count) {
                Ok(_) => return Ok(u64::from_ne_bytes(count)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
