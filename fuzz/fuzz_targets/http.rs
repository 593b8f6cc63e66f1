#![no_main]

vitempo_fuzz::target!("http");
