//! Words for people.

use super::*;

#[test]
fn what_cannot_be_used_is_told_with_its_place_and_a_remedy() {
    for (kind, remedy) in [
        (io::ErrorKind::ReadOnlyFilesystem, "let the user of this process write there, or choose"),
        (io::ErrorKind::PermissionDenied, "let the user of this process write there, or choose"),
        (io::ErrorKind::StorageFull, "make room there, or choose"),
        (io::ErrorKind::NotADirectory, "in the place of a folder: remove it, or choose"),
        (io::ErrorKind::IsADirectory, "in the place of a file: remove it, or choose"),
    ] {
        let told = Error::file("make", Path::new("/state/gateways"))(kind.into()).to_string();
        assert!(told.starts_with("cannot make /state/gateways: ") && told.contains(remedy), "{told}");
        assert!(told.ends_with("another place with --state-dir"), "{told}");
    }
}
