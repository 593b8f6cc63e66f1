//! [`Clients`]: who is connected, how many connections each address has, and which of them end where
//! a new one finds no place.
//!
//! A connection is idle while its next request has not arrived with its whole head, and known once
//! a request of it was let in (by the token, where there is one). Where a place is missing, an idle
//! connection ends: first of those that are not known, then of the address that has most, then the
//! one that is idle for longest. Requests under way are never ended for others. So idle and slow
//! connections keep nobody out, however many there are.

use super::write_timeout::AnswerClock;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Hexadecimal digits of an anonymous address.
const DIGITS: usize = 12;

/// Connections, and a secret that makes their addresses anonymous.
#[derive(Debug)]
pub struct Clients {
    most: usize,
    most_per_address: usize,
    key: [u8; 32],
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Counts connections and requests; the order in which connections became idle.
    now: u64,
    connections: BTreeMap<u64, Connection>,
    per_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    /// Since when it waits for a request; `None` while one is under way.
    idle: Option<u64>,
    is_known: bool,
    end: Arc<Notify>,
}

/// A connection's place; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    clients: Arc<Clients>,
    number: u64,
    end: Arc<Notify>,
    /// Whether another connection was ended for this one.
    pub has_displaced: bool,
}

/// Who sends a request: one connection, as its requests see it.
#[derive(Clone, Debug)]
pub struct Client {
    clients: Arc<Clients>,
    number: u64,
    /// The address under this process's key.
    pub anonymous: Arc<str>,
    /// When its answers must have been read.
    pub clock: AnswerClock,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub struct Busy(Client);

impl Clients {
    /// For at most so many connections, and so many of one address.
    pub fn new(most: usize, most_per_address: usize, key: [u8; 32]) -> Self {
        Self { most, most_per_address, key, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; `None` where requests under way take all.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = network(address);
        let mut table = self.table();
        let of_address = table.per_address.get(&address).copied().unwrap_or_default();
        let has_displaced = if of_address >= self.most_per_address {
            table.end_idle(Some(address))?;
            true
        } else if table.connections.len() >= self.most {
            table.end_idle(None)?;
            true
        } else {
            false
        };
        let number = table.tick();
        let end = Arc::new(Notify::new());
        let connection =
            Connection { address, idle: Some(number), is_known: false, end: end.clone() };
        table.connections.insert(number, connection);
        *table.per_address.entry(address).or_default() += 1;
        Some(Place { clients: self.clone(), number, end, has_displaced })
    }

    /// A name for an address that nobody can turn back without the key.
    fn anonymous(&self, address: IpAddr) -> String {
        let text = address.to_canonical().to_string();
        blake3::keyed_hash(&self.key, text.as_bytes()).to_hex()[..DIGITS].to_owned()
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Ends an idle connection, of this address where one is given.
    fn end_idle(&mut self, address: Option<IpAddr>) -> Option<()> {
        let of = |address: &IpAddr| self.per_address.get(address).copied().unwrap_or_default();
        let candidates = self.connections.iter().filter_map(|(number, connection)| {
            let is_meant = address.is_none_or(|address| address == connection.address);
            let rank = (connection.is_known, Reverse(of(&connection.address)), connection.idle?);
            is_meant.then_some((rank, *number))
        });
        let (_, number) = candidates.min()?;
        let ended = self.remove(number)?;
        ended.end.notify_one();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        if let Some(count) = self.per_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&connection.address);
            }
        }
        Some(connection)
    }
}

/// What counts as one address: in IPv6 a network of 64 bits, which one client has to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

impl Place {
    /// Done when another connection takes this place.
    pub async fn ended(&self) {
        self.end.notified().await;
    }

    /// What requests of this connection carry.
    pub fn client(&self, address: IpAddr, clock: AnswerClock) -> Client {
        let anonymous = self.clients.anonymous(address).into();
        Client { clients: self.clients.clone(), number: self.number, anonymous, clock }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.table().remove(self.number);
    }
}

impl Client {
    /// A request has arrived with its whole head.
    pub fn busy(&self) -> Busy {
        self.change(|connection, _| connection.idle = None);
        Busy(self.clone())
    }

    /// The request under way was refused: the connection may end for others while its body is read.
    pub fn is_refused(&self) {
        self.change(|connection, now| connection.idle = Some(now));
    }

    /// A request of this connection was let in.
    pub fn is_known(&self) {
        self.change(|connection, _| connection.is_known = true);
    }

    fn change(&self, change: impl FnOnce(&mut Connection, u64)) {
        let mut table = self.clients.table();
        let now = table.tick();
        // One that has just been ended is not there any more.
        if let Some(connection) = table.connections.get_mut(&self.number) {
            change(connection, now);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|connection, now| connection.idle = Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Context, task::Waker};

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn clients(most: usize, most_per_address: usize) -> Arc<Clients> {
        Arc::new(Clients::new(most, most_per_address, [7; 32]))
    }

    fn has_ended(place: &Place) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(place.ended()).poll(&mut cx).is_ready()
    }

    #[test]
    fn an_idle_stranger_makes_place() {
        let clients = clients(3, 3);
        let local = address("127.0.0.1");
        let admit = || clients.admit(local);
        let client = |place: &Place| place.client(local, AnswerClock::default());
        let (known, busy, idle) = (admit(), admit(), admit());
        let (Some(known), Some(busy), Some(idle)) = (known, busy, idle) else {
            panic!("there are three places")
        };
        client(&known).is_known();
        let request = client(&busy).busy();
        let fourth = admit().expect("a place");
        assert!(fourth.has_displaced && has_ended(&idle), "the idle stranger ends");
        let _second = client(&fourth).busy();
        let fifth = admit().expect("a place");
        assert!(has_ended(&known), "then the idle one that is known");
        let _third = client(&fifth).busy();
        assert!(admit().is_none(), "requests under way stay");
        drop(request);
        assert!(admit().is_some() && has_ended(&busy));
    }

    #[test]
    fn addresses_have_a_limit_of_their_own() {
        let clients = clients(10, 2);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let busy = |address| {
            let place = clients.admit(address)?;
            let request = place.client(address, AnswerClock::default()).busy();
            Some((place, request))
        };
        let (first, second) = (busy(one), busy(one));
        assert!(first.is_some() && second.is_some() && busy(one).is_none());
        assert!(busy(address("::ffff:10.0.0.1")).is_none(), "the same address in IPv6");
        assert!(busy(other).is_some());
        drop(first);
        assert!(busy(one).is_some());
        let (six, neighbour) = (address("2001:db8::1"), address("2001:db8::ffff:2"));
        let (_first, _second) = (busy(six), busy(neighbour));
        assert!(busy(six).is_none(), "one network");
        assert!(busy(address("2001:db8:0:1::1")).is_some(), "another network");
    }

    #[test]
    fn the_address_with_most_connections_makes_place() {
        let clients = clients(4, 4);
        let (alone, many) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = clients.admit(alone).expect("a place");
        let crowd: Vec<_> = (0..3).map(|_| clients.admit(many).expect("a place")).collect();
        let next = clients.admit(address("10.0.0.3")).expect("a place");
        assert!(next.has_displaced && !has_ended(&first) && has_ended(&crowd[0]));
        drop((first, crowd, next));
        let table = clients.table();
        assert!(table.connections.is_empty() && table.per_address.is_empty());
    }

    #[test]
    fn an_address_is_named_by_the_key_alone() {
        let name = |key: u8, text: &str| Clients::new(1, 1, [key; 32]).anonymous(address(text));
        assert_eq!(name(1, "10.0.0.1"), name(1, "::ffff:10.0.0.1"));
        assert_ne!(name(1, "10.0.0.1"), name(1, "10.0.0.2"));
        assert_ne!(name(1, "10.0.0.1"), name(2, "10.0.0.1"));
        assert!(name(1, "10.0.0.1").len() == DIGITS && !name(1, "10.0.0.1").contains('.'));
    }
}
