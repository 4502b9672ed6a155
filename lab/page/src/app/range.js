// What part of the run the lanes show. It follows the moment, unless all of the run is shown.
import {computed, effect, signal} from "./html.js";
import {end} from "./run.js";
import {time} from "./moment.js";

const chosen = signal(null); // null is all of the run
const least = 1e6; // a thousandth of a second is the closest

export const range = computed(() => chosen.value ?? {from: 0, until: end.value});

const set = (from, length) => {
  length = Math.max(least, Math.min(length, end.value));
  from = Math.max(0, Math.min(from, end.value - length));
  chosen.value = length >= end.value ? null : {from, until: from + length};
};

// zoom makes the part so many times as long, around the moment if it is shown.
export function zoom(by) {
  const {from, until} = range.value, t = time.value;
  const fixed = t >= from && t <= until ? t : (from + until) / 2;
  set(fixed - (fixed - from) * by, (until - from) * by);
}

// pan moves by a part of what is shown.
export function pan(part) {
  const {from, until} = range.value;
  set(from + (until - from) * part, until - from);
}

export const all = () => { chosen.value = null; };

// The page is turned when the moment leaves it.
let before = 0;
effect(() => {
  const t = time.value, r = chosen.peek();
  if (r && t !== before && (t < r.from || t > r.until)) set(t - (r.until - r.from) * 0.1, r.until - r.from);
  before = t;
});
