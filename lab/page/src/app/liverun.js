// What was seen of a cluster that runs, in the form in which the machines of the laboratory tell a run: see Overview,
// State and Line of lab/play. So the same panels draw both, and what was seen can be wound back.

const kinds = {told: "what happened", did: "acts", is: "changes of nodes", said: "what nodes say", writes: "refused writes"};
const most = 60_000; // events that are kept; then the older half is dropped
const moods = {good: "elected", bad: "violation", struck: "fault", plain: "note"};
const lasting = {kill: "start", pause: "resume", cut: "heal"}; // acts that go on, and what ends them

const unknown = [
  {what: "timers", says: "Timers are not told."},
  {what: "causes", says: " Select a line to go to its moment."},
];

export class Recording {
  // about is what the server says first: {nodes, promise, profile}.
  constructor(about) {
    this.nodes = about.nodes;
    this.events = []; // {at, node, …}: the event with the number n is events[n - 1]
    this.proved = null;
    this.faces = this.nodes.map(() => []); // of each node: [event, face]
    this.lines = []; // of the log
    this.longest = 0; // how long a lease is, as far as it was told
    this.both = new Map(); // by two tenures
    this.o = {
      world: null, trace: {source: "live", unknown}, protocol: "quorum", nodes: this.nodes, leases: true, store: false, kinds,
      until: 0, ops: [], hands: [], events: 0, lines: 0, at: 0, over: false, lanes: [], lives: [], roles: [], turns: [], marks: [], writes: [], both: [],
    };
  }

  // take adds events of the server; now is the time up to which nothing else has happened.
  take(all, now) {
    for (const e of all) this.#add(e);
    this.o.at = Math.max(this.o.at, now, this.events.at(-1)?.at ?? 0);
    this.#advance();
  }

  // kept is a recording of the newer half, with what the nodes were like before; or this one, while it is small enough.
  kept() {
    if (this.events.length <= most) return this;
    const cut = most >> 1, fresh = new Recording({nodes: this.nodes});
    const before = this.faces.map(of => of[last(of, ([n]) => n <= cut)]?.[0]).filter(Boolean);
    fresh.take(before.sort((a, b) => a - b).map(n => this.events[n - 1]).concat(this.events.slice(cut)), this.o.at);
    fresh.proved = this.proved;
    return fresh;
  }

  #add(e) {
    const number = this.events.push(e);
    if (e.is) this.#face(number, e);
    if (e.told) this.#told(number, e);
    if (e.did) this.#did(number, e);
    if (e.writes) this.#wrote(number, e);
    if (e.said) this.#line(number, e, "said", `${this.nodes[e.node]} says: ${e.said.replace(/^elect: /, "")}`);
    if (e.proved) this.proved = e.proved;
  }

  #line(event, e, kind, says, turn = false) {
    this.lines.push({number: this.lines.length + 1, event, at: e.at, node: this.nodes[e.node] ?? "", kind, says, turn, cause: 0, letter: -1});
  }

  #face(number, {at, node, is}, e = this.events[number - 1]) {
    const of = this.faces[node], was = of.at(-1)?.[1] ?? {};
    of.push([number, is]);
    const id = this.nodes[node];
    const says = is.token ? `${id} leads, by its own account, with token ${is.token}` : !is.up ? `${id} is dead` : `${id}: ${is.role}${is.leader ? `, follows ${is.leader}` : ""}`;
    const key = f => `${f.up} ${f.role} ${f.leader} ${f.token}`;
    if (key(was) !== key(is)) this.#line(number, e, "is", says);
    if (Boolean(was.up) !== Boolean(is.up) || Boolean(was.frozen) !== Boolean(is.frozen)) {
      const life = this.o.lives.findLast(l => l.place === node);
      if (was.up && life) life.until = at;
      if (is.up) this.o.lives.push({node: id, place: node, frozen: is.frozen, from: at, until: 0});
    }
    let lane = this.o.lanes.findLast(l => l.place === node && l.open);
    if (lane && lane.token !== is.token) {
      this.#prove(lane, at, 0);
      lane.open = false;
      lane.believes.until = at;
      lane = null;
    }
    if (!is.token) return;
    if (!lane) {
      lane = {node: id, place: node, token: is.token, believes: {from: at, until: at}, proven: [], true: [], open: true, lease: 0, next: Infinity};
      this.o.lanes.push(lane);
    }
    this.#prove(lane, at, is.until ?? 0);
  }

  // prove handles until when a tenure's lease is valid, as it was told at a time.
  #prove(lane, at, until) {
    const span = lane.proven.at(-1);
    if (until <= at) {
      lane.lease = Math.min(lane.lease, at);
    } else {
      if (!span) { // a later term has begun, for the earlier ones
        for (const l of this.o.lanes) if (l.place !== lane.place) l.next = Math.min(l.next, at);
      }
      if (!span || lane.lease < at) lane.proven.push({from: at, until: at});
      lane.lease = until;
      this.longest = Math.max(this.longest, until - at);
    }
  }

  #told(number, e) {
    const {text, mood} = e.told;
    this.o.turns.push({event: number, at: e.at, kind: moods[mood], says: text});
    this.#line(number, e, "told", text, true);
  }

  #did(number, e) {
    const {at, did} = e, id = this.nodes[e.node];
    const on = this.o.marks.find(m => m.until === 0 && m.place === e.node && lasting[m.kind] === did);
    if (on) on.until = at;
    else if (did !== "start") {
      this.o.marks.push({op: -1, hand: 0, kind: did, place: e.node, says: `${did} ${id}`, from: at, until: lasting[did] ? 0 : at});
    }
    if (did === "kill") for (const m of this.o.marks) if (m.place === e.node && m.kind === "pause" && m.until === 0) m.until = at;
    this.#line(number, e, "did", `You, or another page: ${did} ${id}`);
  }

  #wrote(event, {node, writes: w}, e = this.events[event - 1]) {
    const late = this.o.writes.findLast(x => x.ok)?.token > w.token;
    this.o.writes.push({at: w.at, event, node: this.nodes[node], token: w.token, ok: w.ok, stale: late, count: w.count, says: ""});
    if (!w.ok) this.#line(event, e, "writes", `The log refuses a write of ${this.nodes[node]} with token ${w.token}`);
  }

  // advance brings what goes on up to the present.
  #advance() {
    const {o} = this, recent = o.lanes.slice(-8);
    for (const l of recent) {
      if (l.open) l.believes.until = o.at;
      const span = l.proven.at(-1);
      if (span) span.until = Math.min(l.lease, o.at);
      l.true = l.proven.map(s => ({from: s.from, until: Math.min(s.until, l.next)})).filter(s => s.until > s.from);
    }
    for (const a of recent) {
      for (const b of recent) {
        if (a === b || a.place === b.place || a.proven[0]?.from > b.proven[0]?.from) continue;
        const both = a.proven.flatMap(x => b.proven.map(y => ({from: Math.max(x.from, y.from), until: Math.min(x.until, y.until)}))).filter(s => s.until > s.from);
        if (both.length > 0) this.both.set(`${a.place} ${a.token} ${b.place} ${b.token}`, both);
      }
    }
    o.both = [...this.both.values()].flat();
    o.events = this.events.length;
    o.lines = this.lines.length;
  }

  // overview is what the panels draw; another object each time, so that they notice.
  overview() {
    return {...this.o};
  }

  // state is how it was after an event, or at a time.
  state({event, time}) {
    const n = event !== undefined ? Math.min(event, this.events.length) : last(this.events, e => e.at <= time) + 1;
    const at = Math.max(this.events[n - 1]?.at ?? 0, time ?? 0);
    const faces = this.faces.map(of => of[last(of, ([number]) => number <= n)]?.[1]);
    const nodes = faces.map((f, place) => node(f, place, this.nodes, at, this.longest));
    const links = [];
    for (const from of nodes.keys()) for (const to of nodes.keys()) if (from !== to && (faces[from]?.cut || faces[to]?.cut)) links.push({from, to, cut: true});
    return {event: n, at, over: this.o.over, nodes, links, flying: [], token: 0, ops: []};
  }

  // log is a part of it, as the machines answer: the last line up to an event, or those from a place on.
  log({event, index, count, node: of, kinds, turns}) {
    const fit = this.lines.filter(l => (!of || l.node === of) && (!kinds?.length || kinds.includes(l.kind)) && (!turns || l.turn));
    const first = event === undefined ? index : last(fit, l => l.event <= event);
    return {lines: first < 0 ? [] : fit.slice(first, first + count), fit: fit.length, first: Math.max(first, 0)};
  }
}

// node is one of a state, as the machines tell it.
function node(f, place, ids, at, lease) {
  const id = ids[place];
  if (!f) return {id, place, unknown: true, up: false, role: "", clock: 0};
  const left = (f.until ?? 0) - at;
  return {
    id, place, up: Boolean(f.up), frozen: f.frozen, role: f.up ? f.role : "down", term: f.term, leader: f.leader, elected: Boolean(f.token), token: f.token,
    proven: left > 0, left: Math.max(left, 0), lease, next: 0, clock: 0,
    view: {...(f.up && {role: f.role, leader: f.leader, term: f.term, token: f.token, connected_with: ids.filter((_, i) => f.hears[i]).join(", ") || "nobody"}), links: f.cut ? "cut" : "whole"},
  };
}

// last is the index of the last one for which is holds; it holds up to there. -1 is none.
function last(all, is) {
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(all[middle])) low = middle + 1; else high = middle;
  }
  return low - 1;
}
