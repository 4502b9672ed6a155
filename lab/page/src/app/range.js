// What part of the run the lanes show. It follows the moment, unless all of the run is shown.
import {computed, effect, signal} from "./html.js";
import {end} from "./run.js";
import {time} from "./moment.js";

const chosen = signal(null); // null is all of the run, or what follows the present
export const following = signal(0); // how much of the run is shown before the present, where it is live; 0 is all
const least = 1e6; // a thousandth of a second is the closest

// last is the part up to the present, if the moment is in it; else the part of that length around the moment.
const last = computed(() => {
  const length = following.value, until = Math.max(end.value + length * 0.03, length);
  if (past.value < 0) return {from: until - length, until};
  const from = Math.max(0, Math.min(past.value - length / 2, until - length));
  return {from, until: from + length};
});
// past is a moment that is out of sight of the present, to half of what is shown; -1 is none.
const past = computed(() => {
  const half = following.value / 2;
  return time.value < end.value - following.value ? Math.floor(time.value / half) * half : -1;
});

export const range = computed(() => chosen.value ?? (following.value ? last.value : {from: 0, until: end.value}));

const set = (from, length) => {
  length = Math.max(least, Math.min(length, end.value));
  from = Math.max(0, Math.min(from, end.value - length));
  chosen.value = length >= end.value ? null : {from, until: from + length};
};

// zoom makes the part so many times as long, around the moment if it is shown.
export function zoom(by) {
  if (following.value && !chosen.value && past.value < 0) {
    following.value = Math.max(1e9, following.value * by);
    return;
  }
  const {from, until} = range.value, t = time.value;
  const fixed = t >= from && t <= until ? t : (from + until) / 2;
  set(fixed - (fixed - from) * by, (until - from) * by);
}

// pan moves by a part of what is shown.
export function pan(part) {
  const {from, until} = range.value;
  set(from + (until - from) * part, until - from);
}

export const all = () => {
  chosen.value = null;
  following.value = 0;
};

// follow shows so much of the run before the present.
export const follow = length => {
  chosen.value = null;
  following.value = length;
};

// The page is turned when the moment leaves it.
let before = 0;
effect(() => {
  const t = time.value, r = chosen.peek();
  if (r && t !== before && (t < r.from || t > r.until)) set(t - (r.until - r.from) * 0.1, r.until - r.from);
  before = t;
});
