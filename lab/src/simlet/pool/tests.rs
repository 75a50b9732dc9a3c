//! Addresses are given one after the other, and come back last.

use std::net::Ipv4Addr;

use super::Pool;

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, last)
}

#[test]
fn what_is_given_back_comes_again_after_all_others() {
    let mut pool = Pool::new(address(0), address(3));
    assert_eq!(pool.take(), Some(address(1)));
    pool.release(address(1));
    assert_eq!([pool.take(), pool.take(), pool.take()], [Some(address(2)), Some(address(3)), Some(address(1))]);
    assert_eq!(pool.take(), None);
}

#[test]
fn one_address_is_given_once_and_only_from_the_pool() {
    let mut pool = Pool::new(address(0), address(9));
    assert!(pool.take_this(address(1)));
    assert!(!pool.take_this(address(1)));
    assert!(!pool.take_this(address(10)));
    assert_eq!(pool.take(), Some(address(2)));
}
