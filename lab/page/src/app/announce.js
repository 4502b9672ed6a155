// The line that tells what has happened, to screen readers too: changes of leaders and violations, as they come by.
import {effect, html, signal} from "./html.js";
import {generation, overview} from "./run.js";
import {clock} from "./format.js";
import {state} from "./moment.js";

const said = signal("");
const kinds = ["elected", "leads", "stops", "down", "violation", "end"];

// say tells something at once.
export const say = text => { said.value = text; };

let before = {run: 0, event: 0};
effect(() => {
  const s = state.value;
  if (!s) {
    said.value = ""; // what was told is of another world
    return;
  }
  const run = generation.value, was = before;
  before = {run, event: s.event};
  if (was.run !== run || s.event <= was.event) return;
  const passed = overview.peek().turns.filter(t => t.event > was.event && t.event <= s.event && kinds.includes(t.kind));
  const last = passed.findLast(t => t.kind === "violation") ?? passed.at(-1);
  if (last) said.value = `${clock(last.at, 3)}: ${last.says}`;
});

export const Announcer = () => html`<p class="news" aria-live="polite" id="said">${said}</p>`;
