//! Records found in any cut.

use super::*;

#[test]
fn records_are_found_however_the_bytes_are_cut() {
    let record = |length: u16| {
        let [high, low] = length.to_be_bytes();
        [&[23, 3, 3, high, low][..], &vec![23; length.into()]].concat()
    };
    let bytes = [17, 18, 16_640, 0, 300].map(record).concat();
    for size in [1, 2, 4, 5, 6, 23, 4_096, bytes.len()] {
        let mut records = Records::new(());
        bytes.chunks(size).for_each(|piece| records.see(piece));
        assert_eq!((records.seen, records.skip, records.have), (5, 0, 0), "pieces of {size}");
    }
    let mut records = Records::new(());
    records.see(&bytes[..20]);
    assert_eq!(records.seen, 1);
}

impl InRecords for tokio::io::DuplexStream {}

impl InRecords for tokio_rustls::client::TlsStream<TcpStream> {}
