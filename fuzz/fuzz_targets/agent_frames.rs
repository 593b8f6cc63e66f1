#![no_main]

vitempo_fuzz::target!("agent_frames");
