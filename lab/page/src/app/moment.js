// The moment that the page shows, and how it moves: by steps, by jumps, and by playing.
import {batch, computed, effect, options, signal} from "./html.js";
import {act, attempt, call, drop, generation, open, overview, problem} from "./run.js";
import {encode} from "./link.js";
import {pace} from "./pace.js";

export const time = signal(0); // in nanoseconds since the world began; between events while it plays
export const state = signal(null); // the machines' answer for it
export const playing = signal(false);
export const speed = signal(1); // virtual seconds a second
export const slow = signal(true); // slower while messages of an election fly
export const rate = signal(0); // how many nanoseconds of the run go by in a second, while it plays
export const selected = signal(""); // the node that is looked at; "" is the leader
export const line = signal(0); // the selected line of the log; 0 is none
const calm = matchMedia("(prefers-reduced-motion: reduce)");
export const still = signal(calm.matches); // no motion, but jumps
calm.addEventListener("change", () => { still.value = calm.matches; });

let wanted = null; // {event} or {time}, to be asked for; the latest wins
let asking = false;

export const event = computed(() => state.value?.event ?? 0);

// moment is what a link says of now.
export const moment = () => (playing.value ? {time: Math.floor(time.value)} : {event: event.value});

// visit opens a world at a moment. The address gets its link, unless it comes from there.
export async function visit(world, at = {time: 0}, linked = false) {
  const o = await attempt(() => open(world));
  if (!o) return false;
  if (!linked) history.pushState(null, "", "#" + encode(world, at));
  begin(at);
  return true;
}

// begin shows a moment of what has just been opened.
export function begin(at) {
  batch(() => {
    playing.value = false;
    selected.value = "";
    line.value = 0;
    time.value = 0;
    state.value = null;
  });
  go(at);
}

// go shows a moment. One that the run has not reached is shown when it has.
export function go(at) {
  if (!playing.value) wait = at;
  wanted = at;
  if (at.time !== undefined) time.value = at.time;
  if (!asking) ask();
}
let wait = null; // the moment that is to be shown, while the run has not reached it

async function ask() {
  asking = true;
  while (wanted) {
    const at = wanted, o = overview.value, run = generation.value;
    wanted = null;
    const far = o.events === 0 || (at.event !== undefined ? at.event > o.events : at.time > o.at);
    if (far && !o.over) break; // the growth goes on, and asks again
    wait = null;
    const asked = far ? {event: o.events} : at.time !== undefined ? {time: Math.floor(at.time)} : at;
    try {
      const s = await call("state", asked);
      if (run !== generation.value) continue; // the answer is of another world
      batch(() => {
        state.value = s;
        if (!playing.value && !wanted && asked.event !== undefined) time.value = s.at;
      });
    } catch (error) {
      problem.value = error.message;
    }
  }
  asking = false;
}
effect(() => {
  if (overview.value && wait && !asking) {
    wanted = wait;
    ask();
  }
});

// stop ends playing at the event that is shown.
export function stop() {
  playing.value = false;
  go({time: Math.floor(time.value)});
}

// step goes some events on, or back.
export function step(n) {
  playing.value = false;
  const o = overview.value;
  go({event: Math.max(0, Math.min(event.value + n, o.over ? o.events : Infinity))});
}

// elections and violations are kinds of turns.
export const elections = ["elected"];
export const violations = ["violation"];

// turn goes to the next turn of these kinds, or of any, or to the one before. It returns the turn, if there is one.
export function turn(back, kinds) {
  playing.value = false;
  const found = near(back, kinds);
  if (found) go({event: found.event});
  return found;
}

const near = (back, kinds) => {
  const fits = t => (!kinds || kinds.includes(t.kind)) && (back ? t.event < event.value : t.event > event.value);
  const all = overview.value?.turns ?? [];
  return back ? all.findLast(fits) : all.find(fits);
};

// toggle plays, or pauses. At the end it begins anew.
export function toggle() {
  if (playing.value) return stop();
  const o = overview.value;
  if (!o) return;
  still.value = calm.matches; // the event that tells of it comes with a later frame
  if (o.over && time.value >= o.at) go({time: 0});
  playing.value = true;
  if (still.value) jump(); else requestAnimationFrame(first => frame(first, first));
}

// While the run plays, what has changed is drawn once a frame, however many signals have.
let waiting = null;
options.debounceRendering = draw => {
  if (!playing.peek() || document.hidden) return queueMicrotask(draw);
  waiting = draw;
  requestAnimationFrame(drawn);
};

// drawn draws it now.
export function drawn() {
  const draw = waiting;
  waiting = null;
  draw?.();
}

function frame(now, before) {
  if (!playing.value) return;
  const o = overview.value;
  const elapsed = Math.min(now - before, 100) * 1e6;
  const was = time.value, t = Math.min(slow.value ? pace(was, elapsed, speed.value) : was + elapsed * speed.value, o.at);
  batch(() => {
    if (elapsed > 0) rate.value += ((t - was) / elapsed * 1e9 - rate.value) * 0.15;
    go({time: t});
  });
  drawn(); // after the canvases: if the page had changed first, they would have the browser work out its styles twice
  if (o.over && t >= o.at) return stop();
  requestAnimationFrame(next => frame(next, now));
}

// jump plays without motion: from turn to turn.
function jump() {
  if (!playing.value) return;
  const next = near(false);
  if (next) {
    time.value = next.at;
    go({event: next.event});
  } else if (overview.value.over) {
    return stop();
  }
  setTimeout(jump, 1200);
}

// hand does an operation now; undo takes one of the visitor's operations back.
export const hand = op => change(() => act(event.value, op));
export const undo = number => change(() => drop(number, event.value));

async function change(how) {
  const o = await attempt(how);
  if (!o) return false;
  line.value = 0;
  if (!playing.value) go({event: event.value});
  return true;
}

// leader is the node that counts as the leader in the state that is shown.
export const leader = computed(() => {
  const all = (state.value?.nodes ?? []).filter(n => n.elected);
  return all.filter(n => n.proven).concat(all).sort((a, b) => b.proven - a.proven || b.token - a.token)[0] ?? null;
});

// What seldom changes, for panels that need not be drawn with every state.
export const leaderId = computed(() => leader.value?.id ?? "");
export const lookedId = computed(() => looked.value?.id ?? "");
export const over = computed(() => state.value?.over ?? false);

// looked is the node that is looked at.
export const looked = computed(() => {
  const nodes = state.value?.nodes ?? [];
  return nodes.find(n => n.id === selected.value) ?? leader.value ?? nodes[0] ?? null;
});
