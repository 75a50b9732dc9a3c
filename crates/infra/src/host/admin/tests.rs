//! Reading Envoy's gauges, and answers that are none.

use super::*;

fn busy(connections: u64, http_connections: u64, requests: u64) -> Busy {
    Busy { connections, http_connections, requests }
}

#[test]
fn gauges_are_added_up_without_workers_and_the_admin_interface() {
    let text = "http.admin.downstream_cx_active: 1\nhttp.admin.downstream_rq_active: 1\nhttp.a.downstream_cx_active: 3\n\
                http.a.downstream_rq_active: 2\nlistener.[__]_8080.downstream_cx_active: 4\n\
                listener.[__]_8080.worker_0.downstream_cx_active: 4\nlistener.admin.downstream_cx_active: 1\n\
                listener.admin.main_thread.downstream_cx_active: 1\nnonsense\n";
    assert_eq!(count(text), busy(4, 3, 2));
}

#[test]
fn a_proxy_is_idle_when_its_connections_are_all_http_without_a_request() {
    assert!(busy(0, 0, 0).is_idle());
    assert!(busy(2, 2, 0).is_idle());
    assert!(!busy(2, 2, 1).is_idle());
    assert!(!busy(3, 2, 0).is_idle());
}

#[tokio::test]
async fn a_socket_without_an_envoy_is_an_error_and_bad_levels_are_never_sent() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    assert!(ready(&socket).await.is_err());
    let error = set_log_levels(&socket, "info&paths=x", "").await.unwrap_err().to_string();
    assert!(error.contains("is no log level"), "{error}");
}
