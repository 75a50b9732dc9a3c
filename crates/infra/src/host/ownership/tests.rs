//! Folders that others can write.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn words(state: &Path) -> String {
    own_state_folder(state, true).map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn folder_that_others_can_write_is_refused_wherever_it_is_on_the_way() {
    let place = tempfile::tempdir().unwrap();
    let (above, state) = (place.path().join("above"), place.path().join("above/state"));
    assert_eq!(words(&state), "", "made where there is none");
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    for folder in [&above, &state] {
        mode(folder, 0o777);
        let refusal = words(&state);
        assert!(refusal.contains("is writable by every user") && refusal.contains("--state-dir"), "{refusal}");
        mode(folder, 0o755);
        assert_eq!(words(&state), "");
    }
    mode(&above, 0o1777);
    assert_eq!(words(&state), "", "sticky, as /tmp is");
    mode(&above, 0o777);
    own_state_folder(&state, false).unwrap();
    // By a link as well.
    let link = place.path().join("link");
    symlink(&state, &link).unwrap();
    assert!(words(&link).contains("is writable by every user"));
}

#[test]
fn folder_of_another_user_is_refused_wherever_it_is_on_the_way() {
    // Only root can give folders away; as another user there is no such folder to be found.
    if geteuid().as_raw() != 0 {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (above, state) = (place.path().join("above"), place.path().join("above/state"));
    create_dir(&above).unwrap();
    create_dir(&state).unwrap();
    for folder in [&above, &state] {
        chown(folder, Some(65534), Some(65534)).unwrap();
        assert!(words(&state).contains("belongs to user 65534"), "{}", words(&state));
        chown(folder, Some(0), Some(0)).unwrap();
        assert_eq!(words(&state), "");
    }
    // A link in a sticky folder that its owner can turn.
    mode(&above, 0o1777);
    let link = above.join("link");
    symlink(&state, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    assert!(words(&link).contains("is a link of user 65534"), "{}", words(&link));
}

#[test]
fn group_of_the_user_alone_may_write() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state");
    create_dir(&state).unwrap();
    let own = std::fs::metadata(&state).unwrap();
    mode(&state, 0o770);
    assert_eq!(words(&state).is_empty(), own.uid() == own.gid());
    if own.uid() == 0 {
        chown(&state, None, Some(65534)).unwrap();
        assert!(words(&state).contains("is writable by its group"));
    }
}
