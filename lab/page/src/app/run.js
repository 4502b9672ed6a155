// The run: the world that was opened, and what the machines say of it as it grows.
import {computed, signal} from "./html.js";

export const overview = signal(null); // the answer of open, trace, grow, do or drop
export const catalogue = signal(null);
export const problem = signal(""); // what went wrong last, for people
export const mostNodes = 15; // of a world; of some protocols they may be fewer, which the machines say
export const world = computed(() => overview.value?.world ?? null);
export const trace = computed(() => overview.value?.trace ?? null); // what is shown in place of a world
export const live = computed(() => trace.value?.source === "live"); // a cluster that runs: see live.js

// unknown says why a trace does not tell something; "" if it does, and of worlds.
export const unknown = (what, o = overview.value) => o?.trace?.unknown.find(u => u.what === what)?.says ?? "";

let machines = null;
export const generation = signal(0); // counts the worlds: what was asked of an earlier one is not of this one

// use says which machines answer, and reads their catalogue.
export async function use(client) {
  machines = client;
  catalogue.value = await call("catalogue");
}

export const call = (method, params) => machines.call(method, params);

// attempt does something that may fail, and tells the visitor if it does. It returns undefined then. What was told stays
// until the visitor closes it, or something else that they wanted has worked.
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    problem.value = error.message;
  }
}

// open begins a world. The one before stays if it cannot be.
export const open = world => begin(call("open", world));

// watch opens a recorded trace. What was shown before stays if it cannot be.
export const watch = text => begin(call("trace", {text}));

// attend shows the cluster that runs.
export const attend = () => begin(call("attend"));

// act adds an operation of the visitor after an event; drop takes one back.
export const act = (event, op) => begin(call("do", {event, op}));
export const drop = (hand, event) => begin(call("drop", {hand, event}));

async function begin(answer) {
  const o = await answer;
  problem.value = "";
  generation.value++;
  overview.value = filled(o);
  grow(generation.value);
  return o;
}

// grow lets the run grow to its end, in steps that leave room for other calls.
async function grow(mine) {
  let events = 2000;
  while (mine === generation.value && !overview.value.over) {
    const began = performance.now();
    let o;
    try {
      o = await call("grow", {events});
    } catch (error) {
      if (mine === generation.value) problem.value = error.message;
      return;
    }
    if (mine !== generation.value) return;
    overview.value = filled(o);
    const took = performance.now() - began;
    if (took < 60) events = Math.min(events * 2, 50_000);
    if (took > 150) events = Math.max(events >> 1, 500);
  }
}

// filled puts empty lists where the machines have none.
export function filled(o) {
  for (const list of ["lanes", "lives", "roles", "turns", "marks", "writes", "both", "ops", "hands"]) o[list] ??= [];
  for (const lane of o.lanes) {
    lane.proven ??= [];
    if (!unknown("terms", o)) lane.true ??= [];
  }
  if (o.world) o.world.hands ??= [];
  return o;
}

// end is when the run ends, as far as that is known.
export const end = computed(() => {
  const o = overview.value;
  return o ? (o.over ? Math.max(o.at, 1) : Math.max(o.until, o.at, 1)) : 1;
});

// protocol is what the catalogue says of the world's.
export const protocol = computed(() => catalogue.value?.protocols.find(p => p.name === overview.value?.protocol));
