//! Any text as a folder of objects: translating it never panics, and every resource that comes of it keeps Envoy's own rules.

use super::world::{World, objects};

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let objects = objects(text);
    if objects.is_empty() {
        return;
    }
    let mut world = World::new();
    world.apply(objects);
    world.publish();
    world.check_rules();
}
