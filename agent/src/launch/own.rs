// SPDX-License-Identifier: Apache-2.0
//! Checks that only root can change or replace a file.

use crate::error::{Error, Kind, Result};
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit.
const MOST_LINKS: usize = 40;
/// Folders with packages of other programs, next to those that our own environment imports.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Refuses a path if somebody other than root can change it, or a folder or link on the way to it.
pub fn check(path: &Path) -> Result<()> {
    resolve(path).map(|_| ())
}

/// Refuses these paths if somebody other than root can change them or anything in them.
pub fn check_trees(paths: &[PathBuf]) -> Result<()> {
    let mut seen = HashSet::new();
    let mut left = Vec::new();
    for path in paths {
        left.push(resolve(path)?);
    }
    while let Some(path) = left.pop() {
        if seen.insert(path.clone()) {
            check_within(&path, &mut left)?;
        }
    }
    Ok(())
}

/// Checks a file, or a folder and its files; pushes subfolders and link targets onto `left`.
fn check_within(path: &Path, left: &mut Vec<PathBuf>) -> Result<()> {
    let found = look(path)?;
    if !is_roots(&found) || can_be_written(&found) {
        return Err(refusal(path, &found));
    }
    if !found.is_dir() {
        return Ok(());
    }
    let cannot = |error: io::Error| Error::io("read", path.display(), &error);
    for entry in fs::read_dir(path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() {
            if !is_of_others(path, &entry.file_name()) {
                left.push(entry.path());
            }
        } else if kind.is_symlink() {
            match resolve(&entry.path()) {
                Ok(target) => left.push(target),
                Err(error) if error.kind == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        } else {
            let found = entry.metadata().map_err(cannot)?;
            if !is_roots(&found) || can_be_written(&found) {
                return Err(refusal(&entry.path(), &found));
            }
        }
    }
    Ok(())
}

/// Returns what a Python imports besides the packages of its environment: `program` itself and its
/// standard library.
pub fn imports_of(program: &Path) -> Vec<PathBuf> {
    let mut found = vec![program.to_owned()];
    let Ok(real) = program.canonicalize() else {
        return found;
    };
    let prefix = real.parent().and_then(Path::parent).map(Path::to_owned);
    for folder in ["lib", "lib64"]
        .iter()
        .filter_map(|name| prefix.as_ref().map(|prefix| prefix.join(name)))
    {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(names.map(|entry| entry.path()).filter(|path| is_of_python(path)));
    }
    found
}

fn is_of_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libpython3") || (name.starts_with("python3.") && path.join("os.py").exists())
}

/// Whether this is a folder of packages next to a Python standard library (which contains `os.py`).
/// Such packages don't belong to the environment that is started.
fn is_of_others(folder: &Path, name: &OsStr) -> bool {
    PACKAGES.iter().any(|packages| name == *packages) && folder.join("os.py").exists()
}

/// Returns where a path leads to; refuses if somebody other than root can change a step on the way.
fn resolve(path: &Path) -> Result<PathBuf> {
    let mut at = PathBuf::from("/");
    let mut left: VecDeque<OsString> = VecDeque::new();
    let absolute = std::path::absolute(path).map_err(|error| Error::io("find", path.display(), &error))?;
    prepend(&mut left, &absolute);
    check_step(&at, &look(&at)?)?;
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = look(&next)?;
        check_step(&next, &found)?;
        if !found.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        let target = fs::read_link(&next).map_err(|error| Error::io("read", next.display(), &error))?;
        if links > MOST_LINKS {
            return Err(Error::io(
                "follow",
                path.display(),
                &io::Error::from_raw_os_error(libc::ELOOP),
            ));
        }
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        prepend(&mut left, &target);
    }
    Ok(at)
}

fn prepend(left: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => left.push_front(name.to_owned()),
            Component::ParentDir => left.push_front("..".into()),
            _ => {}
        }
    }
}

fn look(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::NotFound, format!("{}: no such file", path.display())),
        _ => Error::io("inspect", path.display(), &error),
    })
}

/// Checks a step on the way: nobody can replace root's entries in a sticky folder, and a link has
/// no permissions of its own.
fn check_step(path: &Path, found: &Metadata) -> Result<()> {
    let sticky = found.is_dir() && found.mode() & STICKY != 0;
    if is_roots(found) && (found.is_symlink() || sticky || !can_be_written(found)) {
        return Ok(());
    }
    Err(refusal(path, found))
}

fn is_roots(found: &Metadata) -> bool {
    found.uid() == 0
}

fn can_be_written(found: &Metadata) -> bool {
    found.mode() & OTHERS_WRITE != 0 || (found.mode() & GROUP_WRITES != 0 && found.gid() != 0)
}

fn refusal(path: &Path, found: &Metadata) -> Error {
    let path = path.display();
    let rights = found.mode() & 0o7777;
    Error::new(
        Kind::Privilege,
        format!(
            "{path} can be changed by someone other than root (owner {}, group {}, mode {rights:04o}), so ktrial \
             runs nothing from it as root",
            found.uid(),
            found.gid()
        ),
    )
    .hint(format!(
        "start ktrial as its owner, who may use sudo ./ktrial; or give it to root alone: chown -R 0:0 {path} and \
         chmod -R go-w {path}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::write(base.join("a/b/module.py"), "").unwrap();
        (folder, base)
    }

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    }

    fn refused(path: &Path) -> String {
        let error = check_trees(&[path.to_owned()]).unwrap_err();
        assert_eq!(error.kind, Kind::Privilege);
        error.message
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn whatever_others_can_write_in_a_tree_is_named() {
        if !is_root() {
            return;
        }
        let (_folder, base) = tree();
        check_trees(std::slice::from_ref(&base)).unwrap();
        for (name, bits) in [
            ("a/b/module.py", 0o666),
            ("a/b", 0o757),
            ("a/b", 0o1777),
            ("a", 0o777),
        ] {
            let path = base.join(name);
            let before = fs::metadata(&path).unwrap().mode();
            mode(&path, bits);
            assert!(refused(&base).contains(&format!("{} can be changed", path.display())));
            mode(&path, before);
        }
        chown(base.join("a/b/module.py"), Some(65534), None).unwrap();
        assert!(refused(&base).contains("module.py"));
        chown(base.join("a/b/module.py"), Some(0), Some(65534)).unwrap();
        check_trees(std::slice::from_ref(&base)).unwrap();
        mode(&base.join("a/b/module.py"), 0o664);
        assert!(refused(&base).contains("module.py"));
    }

    #[test]
    fn a_folder_above_counts_and_a_sticky_one_does_not() {
        if !is_root() {
            return;
        }
        let (folder, base) = tree();
        let file = base.join("a/b/module.py");
        mode(folder.path(), 0o1777);
        check(&file).unwrap();
        mode(folder.path(), 0o777);
        assert_eq!(check(&file).unwrap_err().kind, Kind::Privilege);
    }

    #[test]
    fn links_are_followed_through_what_they_lead_through() {
        if !is_root() {
            return;
        }
        let (folder, base) = tree();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("target.py"), "").unwrap();
        symlink("../../open/target.py", base.join("a/link.py")).unwrap();
        symlink("nowhere", base.join("a/dangling")).unwrap();
        symlink("b", base.join("a/lib64")).unwrap();
        check_trees(std::slice::from_ref(&base)).unwrap();
        mode(&open, 0o777);
        assert!(refused(&base).contains("open can be changed"));
        // Somebody else's link to a place of root's.
        mode(&open, 0o755);
        symlink(&open, base.join("theirs")).unwrap();
        std::os::unix::fs::lchown(base.join("theirs"), Some(65534), None).unwrap();
        assert!(refused(&base).contains("theirs can be changed"));
    }

    #[test]
    fn a_pythons_library_counts_and_the_packages_beside_it_do_not() {
        let (_folder, base) = tree();
        let library = base.join("lib/python3.12");
        fs::create_dir_all(library.join("site-packages/other")).unwrap();
        fs::create_dir_all(base.join("bin")).unwrap();
        for name in [
            "lib/python3.12/os.py",
            "lib/python3.12/site-packages/other/a.py",
            "lib/libpython3.12.so",
            "bin/python3.12",
        ] {
            fs::write(base.join(name), "").unwrap();
        }
        symlink("python3.12", base.join("bin/python")).unwrap();
        let mut found = imports_of(&base.join("bin/python"));
        found.sort();
        let wanted = [
            base.join("bin/python"),
            base.join("lib/libpython3.12.so"),
            library.clone(),
        ];
        assert_eq!(found, wanted);
        if is_root() {
            mode(&library.join("site-packages/other/a.py"), 0o666);
            check_trees(&found).unwrap();
            mode(&library.join("os.py"), 0o666);
            assert_eq!(check_trees(&found).unwrap_err().kind, Kind::Privilege);
        }
    }
}
