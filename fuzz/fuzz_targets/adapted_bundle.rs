#![no_main]

vitempo_fuzz::target!("adapted_bundle");
