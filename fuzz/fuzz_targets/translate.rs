//! Any text as a folder of objects: translating it never panics, and every resource that comes of it keeps Envoy's own rules.
#![no_main]

use fuzz::world::{World, objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let objects = objects(text);
    if objects.is_empty() {
        return;
    }
    let mut world = World::new();
    world.apply(objects);
    world.publish();
    world.check_rules();
});
