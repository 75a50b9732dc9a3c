//! Machines as files, and sizes as text.

use super::*;

const MACHINE: &str = "MemTotal:        8000000 kB\nMemFree:          100000 kB\n";

/// The least of a machine with these files.
fn least_of(files: &[(&str, &str)]) -> Option<u64> {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }
    least(root.path())
}

#[test]
fn the_least_of_groups_and_machine_counts() {
    let meminfo = ("proc/meminfo", MACHINE);
    let v2 = ("proc/self/cgroup", "0::/a/b\n");
    let cases: &[(&[(&str, &str)], u64)] = &[
        (&[meminfo], 8_192_000_000),
        (&[meminfo, v2, ("sys/fs/cgroup/a/b/memory.max", "max\n")], 8_192_000_000),
        (&[meminfo, v2, ("sys/fs/cgroup/a/b/memory.max", "1073741824\n")], 1 << 30),
        (
            &[
                meminfo,
                v2,
                ("sys/fs/cgroup/a/b/memory.max", "2147483648\n"),
                ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ],
            1 << 30,
        ),
        // a container: its own group is the root
        (&[meminfo, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "536870912\n")], 512 << 20),
        (
            &[
                meminfo,
                ("proc/self/cgroup", "12:cpu,cpuacct:/x\n9:memory:/docker/abc\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
                ("sys/fs/cgroup/memory.max", "1\n"),
            ],
            512 << 20,
        ),
        (
            &[
                meminfo,
                ("proc/self/cgroup", "9:memory:/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ],
            8_192_000_000,
        ),
        (
            &[meminfo, ("proc/self/cgroup", "0::/../../a\nrubbish\n::\n"), ("sys/fs/cgroup/a/memory.max", "no number")],
            8_192_000_000,
        ),
    ];
    for (files, bytes) in cases {
        assert_eq!(least_of(files), Some(*bytes), "{files:?}");
    }
    assert_eq!(least_of(&[("proc/meminfo", "nothing")]), None);
    assert!(available() > 0);
}

#[test]
fn sizes_are_read_as_kubernetes_writes_them() {
    for (text, bytes) in [("1Gi", 1 << 30), ("512Mi", 512 << 20), ("500M", 500_000_000), ("16777216", 16 << 20)] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in
        ["", "Gi", "1.5Gi", "-1Gi", "1 Gi", "1Ti", "15Mi", "0", "99999999999999999999", "18446744073709551615Gi"]
    {
        assert!(size(text).is_err(), "{text}");
    }
}
