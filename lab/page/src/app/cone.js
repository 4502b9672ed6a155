// The causal cone of the selected line: the numbers of the lines that led to it, and of those that it led to.
import {effect, signal} from "./html.js";
import {attempt, call, generation} from "./run.js";
import {line} from "./moment.js";

const none = {past: new Set(), future: new Set()};
export const cone = signal(none);

effect(() => {
  const number = line.value, run = generation.value;
  cone.value = none;
  if (number === 0) return;
  attempt(() => call("cause", {line: number, most: 500})).then(c => {
    if (c && number === line.peek() && run === generation.peek()) cone.value = {past: new Set(c.past), future: new Set(c.future)};
  });
});
