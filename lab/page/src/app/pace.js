// The pace of playing. Messages of an election fly for less than a thousandth of a second: at the speed of life nobody
// sees them. So the page knows them in advance, and slows down while one flies.
import {call, generation, overview} from "./run.js";

const ahead = 5e9; // how far it looks ahead
const flight = 0.7; // how many seconds a message of an election is to be seen
let known = null; // {run, from, until, busy: [[from, until, speed], …]}
let asking = false;

// pace returns the moment after so much time at a speed.
export function pace(t, elapsed, speed) {
  look(t);
  let left = elapsed;
  while (left > 0) {
    const span = known?.run === generation.value && known.busy.find(([, until]) => until > t);
    if (!span) return t + left * speed;
    const [from, until, most] = span;
    const v = t < from ? speed : Math.min(most, speed);
    const next = t < from ? from : until;
    const needs = (next - t) / v;
    if (needs >= left) return t + left * v;
    left -= needs;
    t = next;
  }
  return t;
}

// look asks for the letters ahead, if they are not known.
async function look(t) {
  const run = generation.value, all = overview.value.at;
  const fresh = known?.run === run && t >= known.from && (t < known.until - ahead / 2 || known.until >= all);
  if (asking || fresh) return;
  asking = true;
  const from = Math.max(0, Math.floor(t) - 1e7), until = Math.min(Math.floor(t) + ahead, all);
  try {
    const {letters} = await call("letters", {from, to: until, routine: false, most: 4000});
    known = {run, from, until, busy: busy(letters)};
  } finally {
    asking = false;
  }
}

// busy joins the flights that overlap. The speed is that of the longest of them, so that it is seen long enough.
function busy(letters) {
  const all = [];
  for (const l of letters) {
    if (!l.arrived || l.arrived <= l.sent) continue;
    const last = all.at(-1), speed = Math.min((l.arrived - l.sent) / 1e9 / flight, 1);
    if (last && l.sent <= last[1]) {
      last[1] = Math.max(last[1], l.arrived);
      last[2] = Math.max(last[2], speed);
    } else {
      all.push([l.sent, l.arrived, speed]);
    }
  }
  return all;
}
