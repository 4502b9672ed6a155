// The messages of the part of the run that the space-time diagram shows.
import {computed, effect, signal} from "./html.js";
import {attempt, call, end, generation, overview} from "./run.js";
import {playing, rate, state, time} from "./moment.js";

export const span = signal(8e6); // how much of the run is shown, in nanoseconds
export const heartbeats = signal(false);
export const letters = signal({run: 0, from: 0, to: 0, all: [], left: 0});

// part is what is shown. While the run plays fast it is more, so that it does not rush by.
export const part = computed(() => {
  const t = playing.value ? time.value : state.value?.at ?? 0;
  const length = playing.value ? Math.max(span.value, rate.value * 1.5) : span.value;
  const from = t - length * (playing.value ? 0.75 : 0.5);
  return {t, from, until: from + length};
});

// closer shows a part that is so many times as long.
export const closer = by => { span.value = Math.max(1e5, Math.min(span.value * by, end.value)); };

let asking = false;
effect(() => {
  const {from, until} = part.value, o = overview.value, run = generation.value, known = letters.value;
  if (!o || asking) return;
  const fits = known.run === run && known.routine === heartbeats.value && known.grown >= Math.min(until, o.at) &&
    from >= known.inside && until <= known.to && (until - from) * 8 > known.to - known.inside;
  if (!fits) fetch(run, from, until, o.at);
});

async function fetch(run, from, until, grown) {
  asking = true;
  // What was sent a while before may still be on its way.
  const length = until - from, inside = from - length, routine = heartbeats.value;
  const answer = await attempt(() => call("letters", {
    from: Math.max(0, Math.floor(inside - Math.max(length, 1e8))), to: Math.ceil(Math.max(until + length, 1)), routine, most: 1500,
  }));
  asking = false;
  letters.value = {run, routine, inside, to: until + length, grown, all: answer?.letters ?? [], left: answer?.left ?? 0};
}
