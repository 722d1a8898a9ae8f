//! Reads a recording from bytes, whatever they are.

use crate::format::{
    DEMOTES, EVENT, HEADER, Id, Kind, Layout, MAGIC, MOST_EVENTS, MOST_NAMES, MOST_RINGS,
    MOST_SLOTS, PROGRAM, Port, RING_HEADER, Role, Settings, VERSION, ring_word, word,
};
use std::collections::HashMap;
use std::fmt;

/// The reason why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damage {}

fn damage<T>(what: impl Into<String>) -> Result<T, Damage> {
    Err(Damage(what.into()))
}

/// A recording: the events that are left in its rings, and what they are of.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What the recording says about its program.
    pub header: RecordingHeader,
    /// The rings in use.
    pub rings: Vec<RingEvents>,
    names: HashMap<Id, u16>,
    texts: HashMap<u16, String>,
}

/// What a recording says about its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingHeader {
    /// The settings with which it was written.
    pub settings: Settings,
    /// When it began, in nanoseconds of the clock by which recordings are merged.
    pub began: u64,
    /// Names for which there was no room.
    pub names_lost: u32,
    /// Events that no ring took.
    pub events_lost: u32,
}

/// The events of one ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingEvents {
    /// What writes the ring.
    pub role: Role,
    /// Its number among those of its role.
    pub number: u32,
    /// The thread's identifier, or 0.
    pub thread: u32,
    /// The levels that the worker takes, one bit each.
    pub takes: u64,
    /// Events that were written over, the oldest ones.
    pub lost: u64,
    /// The events that are left, the oldest first.
    pub events: Vec<Event>,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened, in nanoseconds of the clock by which recordings are merged.
    pub time: u64,
    /// Where it stands among all ordered events; `None` for one that is not ordered.
    pub order: Option<u64>,
    /// What it reports.
    pub kind: Kind,
    /// The coroutine, if it is about one.
    pub id: Id,
    /// The level, if it has one.
    pub level: u8,
    /// The third word of an event that is not ordered, such as the number of a name.
    pub argument: u32,
}

/// Words of a file, by their numbers.
struct Words<'a>(&'a [[u8; 4]]);

impl Words<'_> {
    /// Returns a word; 0 beyond the end, which is checked before.
    fn at(&self, number: usize) -> u32 {
        self.0
            .get(number)
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn wide(&self, number: usize) -> u64 {
        u64::from(self.at(number)) | u64::from(self.at(number + 1)) << 32
    }

    fn text(&self, number: usize, bytes: usize) -> Option<String> {
        let text = self.0.get(number..)?.as_flattened().get(..bytes)?;
        Some(std::str::from_utf8(text).ok()?.to_string())
    }
}

/// The clock of a recording.
struct Clock {
    ticks: u64,
    nanoseconds: u64,
    /// So many nanoseconds are so many ticks.
    rate: (u64, u64),
}

impl Clock {
    fn read(words: &Words<'_>, frequency: u64) -> Self {
        let (ticks, nanoseconds) = (words.wide(word::ANCHOR), words.wide(word::ANCHOR + 2));
        let mut rate = (1_000_000_000, frequency);
        if let Some(last) = words.at(word::ANCHORS).checked_sub(1) {
            let place = word::LATER + 4 * (last as usize % 2);
            let later = words.wide(place).checked_sub(ticks);
            let time = words.wide(place + 2).checked_sub(nanoseconds);
            if let (Some(later @ 1..), Some(time @ 1..)) = (later, time) {
                rate = (time, later);
            }
        }
        Self {
            ticks,
            nanoseconds,
            rate,
        }
    }

    fn time(&self, ticks: u64) -> u64 {
        let since = i128::from(ticks) - i128::from(self.ticks);
        let since = since * i128::from(self.rate.0) / i128::from(self.rate.1);
        let time = i128::from(self.nanoseconds) + since;
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }
}

impl Recording {
    /// Reads a recording.
    ///
    /// The process may still write it, or have crashed while it did. Takes time and memory in
    /// proportion to the bytes.
    ///
    /// # Errors
    /// Fails if the bytes are not a whole recording of this version.
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        if bytes.len() < 4 * HEADER {
            return damage(format!(
                "it has {} bytes, and the header of a recording has {}: is the file complete?",
                bytes.len(),
                4 * HEADER
            ));
        }
        if bytes[..8] != MAGIC {
            return damage("it does not begin with `corankrc`: it is not a recording");
        }
        let (words, rest) = bytes.as_chunks::<4>();
        let words = Words(words);
        let header = RecordingHeader::read(&words)?;
        let layout = Layout::new(&header.settings);
        if !rest.is_empty() || words.0.len() != layout.end {
            return damage(format!(
                "it has {} bytes, and its header promises {}: it was cut off or changed",
                bytes.len(),
                4 * layout.end
            ));
        }
        let mut this = Self {
            texts: texts(&words, &layout)?,
            names: HashMap::new(),
            rings: Vec::new(),
            header,
        };
        let clock = Clock::read(&words, this.header.settings.frequency);
        for number in 0..this.header.settings.rings {
            let start = layout.rings + layout.ring * number as usize;
            let ring = Words(&words.0[start..start + layout.ring]);
            match ring.at(ring_word::USED) {
                0 => {}
                1 => {
                    let next = words.at(word::NEXT);
                    let ring = RingEvents::read(&ring, &clock, next)
                        .map_err(|damage| Damage(format!("ring {number}: {damage}")))?;
                    this.rings.push(ring);
                }
                used => return damage(format!("ring {number}: {used} does not say if it is used")),
            }
        }
        this.take_names(&words, &layout);
        Ok(this)
    }

    /// Collects the names of coroutines: those of the latest of each slot, and those in the rings.
    fn take_names(&mut self, words: &Words<'_>, layout: &Layout) {
        for slot in 0..self.header.settings.slots {
            let word = words.at(layout.slots + slot as usize);
            if word as u16 != 0 {
                let generation = (word >> 16) as u16;
                self.names.insert(Id { slot, generation }, word as u16);
            }
        }
        for event in self.rings.iter().flat_map(|ring| &ring.events) {
            if event.kind == Kind::Name {
                self.names.insert(event.id, event.argument as u16);
            }
        }
    }

    /// Returns the name of a coroutine, if it is known.
    #[must_use]
    pub fn name(&self, id: Id) -> Option<&str> {
        Some(self.texts.get(self.names.get(&id)?)?)
    }

    /// Returns how many events were lost, of full rings and of threads without one.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let rings = self.rings.iter().map(|ring| ring.lost);
        rings.fold(u64::from(self.header.events_lost), u64::saturating_add)
    }
}

impl RecordingHeader {
    fn read(words: &Words<'_>) -> Result<Self, Damage> {
        let at = |number| words.at(number);
        let version = at(word::VERSION);
        if version != VERSION {
            return damage(format!(
                "it has version {version} of the format, and this program reads {VERSION}"
            ));
        }
        let limit = |what: &str, number: usize, most: u32| match at(number) {
            value if value <= most => Ok(value),
            value => damage(format!("{value} {what} are more than {most}")),
        };
        if at(word::HEADER) != HEADER as u32 {
            return damage("its header has another length than this version's");
        }
        let Some(port) = Port::of(at(word::PORT)) else {
            return damage(format!("port {} is not known", at(word::PORT)));
        };
        let settings = Settings {
            port,
            process: at(word::PROCESS),
            rings: limit("rings", word::RINGS, MOST_RINGS)?,
            events: limit("events of a ring", word::EVENTS, MOST_EVENTS)?,
            slots: limit("slots", word::SLOTS, MOST_SLOTS)?,
            names: limit("bytes of names", word::NAMES, MOST_NAMES)?,
            frequency: words.wide(word::FREQUENCY),
            bounded: at(word::POLICY),
            demotes: at(word::FLAGS) & DEMOTES != 0,
            workers: at(word::WORKERS),
            program: program(words)?,
        };
        if !settings.events.is_power_of_two() || !settings.names.is_multiple_of(4) {
            return damage("the events of a ring are no power of two, or the names no whole words");
        }
        if settings.frequency == 0 {
            return damage("its clock has no ticks");
        }
        if at(word::FLAGS) & !DEMOTES != 0 {
            return damage(format!("its flags {:#x} are not known", at(word::FLAGS)));
        }
        Ok(Self {
            settings,
            began: words.wide(word::ANCHOR + 2),
            names_lost: at(word::NAMES_LOST),
            events_lost: at(word::EVENTS_LOST),
        })
    }
}

fn program(words: &Words<'_>) -> Result<String, Damage> {
    match words.text(PROGRAM.start, 4 * PROGRAM.len()) {
        Some(text) => Ok(text.trim_end_matches('\0').to_string()),
        None => damage("the program's name is not UTF-8"),
    }
}

/// Reads the names, by number.
fn texts(words: &Words<'_>, layout: &Layout) -> Result<HashMap<u16, String>, Damage> {
    let mut texts = HashMap::new();
    let used = words.at(word::NAMES_USED) as usize;
    if !used.is_multiple_of(4) || used / 4 > layout.slots - layout.names {
        return damage("its names take more room than there is");
    }
    let end = layout.names + used / 4;
    let mut at = layout.names;
    while at < end {
        let bytes = words.at(at) as usize;
        let next = at + 1 + bytes.div_ceil(4);
        let text = words.text(at + 1, bytes);
        let number = u16::try_from(at - layout.names + 1);
        let (Some(text), Ok(number), true) = (text, number, next <= end) else {
            return damage(format!("the name in word {at} is too long or not UTF-8"));
        };
        texts.insert(number, text);
        at = next;
    }
    Ok(texts)
}

impl RingEvents {
    fn read(words: &Words<'_>, clock: &Clock, next: u32) -> Result<Self, Damage> {
        let role = words.at(ring_word::ROLE);
        let Some(role) = Role::of(role) else {
            return damage(format!("role {role} is not known"));
        };
        let room = ((words.0.len() - RING_HEADER) / EVENT) as u64;
        let written = words.wide(ring_word::WRITTEN);
        // The place of the oldest one in a full ring may be half written.
        let count = if written < room { written } else { room - 1 };
        let event = |position: u64| {
            let at = RING_HEADER + EVENT * (position & (room - 1)) as usize;
            [0, 1, 2, 3].map(|word| words.at(at + word))
        };
        let mut first = written - count;
        let mut events = Vec::with_capacity(count as usize);
        // From the newest to the oldest, because the process may have written over old ones since
        // the count was read.
        let mut later = Newest::default();
        for position in (first..written).rev() {
            let words = event(position);
            let read = Event::read(words, next)
                .map_err(|damage| Damage(format!("event {position}: {damage}")))?;
            if let Some(order) = read.order {
                match later.follows(order) {
                    Follows::Yes => {}
                    Follows::Overwritten => {
                        first = position + 1;
                        break;
                    }
                    Follows::No => {
                        return damage(format!(
                            "event {position}: its sequence number is not below that of the next"
                        ));
                    }
                }
            }
            events.push((read, words));
        }
        let mut upper = (events.iter().rev())
            .find(|(event, _)| event.kind == Kind::Time)
            .map_or(words.at(ring_word::UPPER), |(_, words)| words[1]);
        let mut in_order = Vec::with_capacity(events.len());
        for (mut event, words) in events.into_iter().rev() {
            if event.kind == Kind::Time {
                upper = words[2];
                continue;
            }
            event.time = clock.time(u64::from(upper) << 32 | u64::from(words[0]));
            in_order.push(event);
        }
        Ok(Self {
            role,
            number: words.at(ring_word::NUMBER),
            thread: words.at(ring_word::THREAD),
            takes: words.wide(ring_word::TAKES),
            lost: first,
            events: in_order,
        })
    }
}

/// The sequence numbers of the events after one, in a ring.
#[derive(Default)]
struct Newest {
    newest: Option<u64>,
    next: Option<u64>,
}

enum Follows {
    Yes,
    Overwritten,
    No,
}

impl Newest {
    fn follows(&mut self, order: u64) -> Follows {
        if self.next.is_some_and(|next| order >= next) {
            // What was written since has numbers beyond all that were there.
            let is_newer = self.newest.is_some_and(|newest| order > newest);
            return if is_newer {
                Follows::Overwritten
            } else {
                Follows::No
            };
        }
        self.newest.get_or_insert(order);
        self.next = Some(order);
        Follows::Yes
    }
}

impl Event {
    /// Reads an event whose time is not known yet. `next` is a recent sequence number.
    fn read([_, argument, slot, what]: [u32; EVENT], next: u32) -> Result<Self, Damage> {
        let Some(kind) = Kind::of(what & 0xff) else {
            return damage(format!("kind {} is not known", what & 0xff));
        };
        let level = (what >> 8) as u8;
        if level > 63 {
            return damage(format!("level {level} is not below 64"));
        }
        // The numbers have 32 bits, and those in a recording lie within half of that.
        let since = i64::from(argument.wrapping_sub(next) as i32);
        let order = ((1_u64 << 32) + u64::from(next)).checked_add_signed(since);
        Ok(Self {
            time: 0,
            order: order.filter(|_| kind.is_ordered()),
            kind,
            id: Id {
                slot,
                generation: (what >> 16) as u16,
            },
            level,
            argument,
        })
    }
}
