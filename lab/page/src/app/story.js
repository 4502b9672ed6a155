// A guided story: a sentence a step, beside the world at the moment that the sentence is about.
import {batch, effect, html, names, signal, useEffect, useRef} from "./html.js";
import {call, catalogue, generation, overview, trace, world} from "./run.js";
import {drawn, go, moment, playing, still, time, visit} from "./moment.js";
import {pace} from "./pace.js";
import {encode} from "./link.js";
import {say} from "./announce.js";

export const story = signal(null); // as the machines tell it; without steps while its worlds are run
const at = signal(0); // its step, from 0
const told = new Map(); // by name: a story is the same each time
let opened = {}; // {run, world}: the world of a step that is shown, as long as nobody has changed it
let entering = false;
let last = Promise.resolve(); // steps are shown one after the other

export const same = w => JSON.stringify({...w, hands: undefined}); // what a visitor does makes no other world of it
const panels = {world: "cluster", lanes: "lanes", log: "log", invariants: "invariants"};

// tell shows a step of a story, from 1. It throws an Error that says what is wrong with the link to it.
export async function tell(name, number = "1") {
  const link = location.hash, all = catalogue.value.stories, info = all.find(s => s.name === name);
  if (!info) throw new Error(`The link has a story “${name}”; want one of ${all.map(s => s.name).join(", ")}.`);
  const n = Number(number);
  if (!/^\d+$/.test(number) || n < 1 || n > info.steps) throw new Error(`The link has step “${number}” of the story “${name}”; want 1 to ${info.steps}.`);
  if (!told.has(name)) {
    batch(() => {
      story.value = {...info, steps: []};
      at.value = n - 1;
    });
    try {
      told.set(name, await call("story", {name}));
    } catch (error) {
      story.value = null;
      throw error;
    }
    if (location.hash !== link) return; // the visitor wanted something else meanwhile
  }
  show(told.get(name), n - 1);
}

// forth shows the next step, or another one.
export function forth(by) {
  const s = story.value, i = at.value + by;
  if (!s?.steps.length) return;
  if (i < 0 || i >= s.steps.length) return say(i < 0 ? "This is the first step." : "This is the last step.");
  history.pushState(null, "", `#story/${s.name}/${i + 1}`);
  show(s, i);
}

function show(s, i) {
  batch(() => {
    story.value = s;
    at.value = i;
  });
  const wanted = () => story.value === s && at.value === i;
  last = last.then(() => wanted() && reach(s.steps[i], wanted));
}

async function reach(step, wanted) {
  document.documentElement.dataset.look = step.look;
  const text = JSON.stringify(step.world);
  if (opened.run === generation.value && opened.world === text) {
    lift(step.look);
    return travel(step.event, wanted);
  }
  entering = true;
  if (await visit(step.world, {event: step.event}, true)) opened = {run: generation.value, world: text};
  entering = false;
  requestAnimationFrame(() => lift(step.look));
}

// lift has the panel in sight.
function lift(look) {
  const narrow = matchMedia("(max-width: 1000px)").matches;
  document.getElementById(panels[look])?.scrollIntoView({block: narrow ? "start" : "nearest", behavior: still.value ? "auto" : "smooth"});
}

const usual = 3e9, most = 6e9; // how long the way to a step takes, in nanoseconds of life

// travel plays to an event of the world, or goes there at once if it lies behind, or has not been reached.
async function travel(event, wanted) {
  const run = generation.value, from = time.value;
  playing.value = false;
  if (still.value || overview.value.events < event) return go({event});
  const until = await call("state", {event}).then(s => s.at, () => from);
  if (!wanted() || run !== generation.value) return;
  if (until <= from) return go({event});
  playing.value = true;
  const speed = (until - from) / usual;
  await new Promise(done => {
    const began = performance.now();
    const frame = (now, before) => {
      if (!wanted() || run !== generation.value || !playing.value) return done(); // skipped, or paused
      const elapsed = Math.min(now - before, 100) * 1e6, left = most - (performance.now() - began) * 1e6;
      const t = left > elapsed ? Math.max(pace(time.value, elapsed, speed), time.value + (left < usual && (until - time.value) * elapsed / left)) : until;
      if (t >= until) {
        playing.value = false;
        go({event});
        return done();
      }
      go({time: t});
      drawn();
      requestAnimationFrame(next => frame(next, now));
    };
    requestAnimationFrame(first => frame(first, first));
  });
}

// A story ends when the visitor opens another world, or a trace.
effect(() => {
  const w = world.value, step = story.peek()?.steps[at.peek()];
  if (step && !entering && (trace.value || w && same(w) !== same(step.world))) story.value = null;
});
effect(() => {
  if (!story.value) delete document.documentElement.dataset.look;
});

// end leaves the story, and its world as it is.
export function end() {
  story.value = null;
  history.replaceState(null, "", "#" + encode(world.value, moment()));
}

function breakIt() {
  end();
  document.getElementById("operate").scrollIntoView({block: "nearest"});
  document.querySelector("#operate select").focus();
}

// storyKeys are for the help, and for useKeys.
export const storyKeys = [
  {key: "]", name: "] or Page down", says: "the next step of a story", act: () => forth(1), when: () => story.value},
  {key: "[", name: "[ or Page up", says: "the step before", act: () => forth(-1), when: () => story.value},
  {key: "PageDown", act: () => forth(1), when: () => story.value},
  {key: "PageUp", act: () => forth(-1), when: () => story.value},
];

function End({s}) {
  const all = catalogue.value.stories, next = all[all.findIndex(o => o.name === s.name) + 1];
  return html`<div class="guide-end"><button type="button" class="main" onClick=${breakIt}>Now break it yourself</button>
    ${next ? html`<a class="go" href=${`#story/${next.name}`}>Next story: ${next.title}</a>` : html`<a class="go" href="#challenges">Now a challenge</a>`}</div>`;
}

export function Story() {
  const s = story.value, i = at.value, title = useRef(), n = s.steps.length;
  useEffect(() => { title.current.focus({preventScroll: true}); }, [s.name]);
  return html`<section id="guide" class="story" aria-labelledby="guide-title">
    <div class="guide-head">
      <h2 id="guide-title" tabindex="-1" ref=${title}><span>Story</span> ${s.title}</h2>
      <button type="button" class="quiet" onClick=${end} disabled=${n === 0}>Leave<span class="unseen"> the story</span></button>
    </div>
    <p class="says" aria-live="polite">${n === 0 ? "The worlds of this story are run …" : s.steps[i].says}</p>
    ${n > 0 && i === n - 1 && html`<${End} s=${s} />`}
    <div class="guide-steps">
      <ol>${s.steps.map((_, k) => html`<li><a href=${`#story/${s.name}/${k + 1}`} aria-label=${`Step ${k + 1}`} aria-current=${k === i ? "step" : undefined} class=${names(k < i && "past")}></a></li>`)}</ol>
      <p class="nth">${i + 1} of ${n || s.steps}</p>
      <div class="buttons"><button type="button" aria-disabled=${String(n === 0 || i === 0)} aria-keyshortcuts="[" onClick=${() => forth(-1)}><span aria-hidden="true">←</span> Back</button>
        <button type="button" class="main" aria-disabled=${String(n === 0 || i === n - 1)} aria-keyshortcuts="]" onClick=${() => forth(1)}>Next <span aria-hidden="true">→</span></button></div>
    </div></section>`;
}
