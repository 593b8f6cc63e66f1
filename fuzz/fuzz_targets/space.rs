#![no_main]

vitempo_fuzz::target!("space");
