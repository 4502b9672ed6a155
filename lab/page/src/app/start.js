// What a visitor sees before there is a world: three choices, and the lists behind them. Each is behind a link.
import {html, signal, useEffect, useRef} from "./html.js";
import {catalogue} from "./run.js";
import {playing, stop} from "./moment.js";
import {choosing} from "./chooser.js";
import {encode} from "./link.js";
import {plural} from "./format.js";

// first is the world without a link.
export const first = {protocol: "quorum", nodes: 5, seconds: 60};

const titles = {start: "", stories: "Watch a story", challenges: "Break it yourself", questions: "Answer a question"};

// screenOf is the screen of a link, "" if it names none. Without a link it is the first one.
export function screenOf(hash) {
  const name = hash.replace(/^#/, "") || "start";
  return Object.hasOwn(titles, name) ? name : "";
}

export const screen = signal(screenOf(location.hash));

// enter shows the screen of a link, or none. A world behind it stands still.
export function enter(hash) {
  screen.value = screenOf(hash);
  if (screen.value && playing.value) stop();
  return screen.value !== "";
}

// leave shows the world that is behind the screen.
export function leave() {
  if (!screen.value) return;
  screen.value = "";
  history.replaceState(null, "", location.pathname + location.search);
}

const Choice = ({to, title, says}) => html`<li><a class="choice" href=${"#" + to}><strong>${title}</strong><span>${says}</span></a></li>`;

// Emblem is there to be looked at: five nodes, and the heartbeats of the one that leads.
const spots = [0, 1, 2, 3, 4].map(i => [44 * Math.sin(i * Math.PI * 0.4), -44 * Math.cos(i * Math.PI * 0.4)].map(Math.round));
const Emblem = () => html`<svg class="emblem" viewBox="-58 -58 116 116" aria-hidden="true">
  ${spots.slice(1).map(([x, y]) => html`<path d=${`M${spots[0].join(" ")}L${x} ${y}`} /><path class="beat" pathLength="100" d=${`M${spots[0].join(" ")}L${x} ${y}`} />`)}
  ${spots.map(([x, y], i) => html`<circle class=${i === 0 && "leads"} cx=${x} cy=${y} r=${i === 0 ? 12 : 10} />`)}</svg>`;

const Start = () => html`<${Emblem} />
  <p class="lead">Several machines choose one of them as their leader: see how, break it, and understand what still holds.</p>
  <ul class="choices">
    <${Choice} to="stories" title=${titles.stories} says="An election, a split brain, a pause of 45 seconds: a few steps each, with a sentence a step." />
    <${Choice} to="challenges" title=${titles.challenges} says="Kill, pause and cut off what you like; or make two leaders, and be judged." />
    <${Choice} to="questions" title=${titles.questions} says="What interviewers ask about leader election, each with a world that shows the answer." />
  </ul>
  <p class="hint">Nothing is staged: the code that elects in production runs in your browser, in a simulated network. Nothing is sent
    anywhere. To see real processes instead, and to break them: <code>elect demo --web</code>.</p>`;

// Listed waits for the catalogue.
const Listed = ({of, children}) => (catalogue.value ? children(catalogue.value[of]) : html`<p class="empty">The machines are loading; the list comes with them.</p>`);

const Stories = () => html`<${Listed} of="stories">${all => html`<ol class="choices list">${all.map(s => html`
  <${Choice} key=${s.name} to=${`story/${s.name}`} title=${s.title} says=${`${s.says} ${plural(s.steps, "step")}.`} />`)}</ol>`}<//>`;

const Challenges = () => html`
  <ul class="choices"><${Choice} to=${encode(first, {time: 0})} title="As you like" says="Five nodes in a calm world: nothing breaks but what you break." /></ul>
  <h3>Challenges</h3>
  <${Listed} of="challenges">${all => html`<ul class="choices list">${all.map(c => html`
    <${Choice} key=${c.name} to=${`challenge/${c.name}`} title=${c.title} says=${c.says} />`)}</ul>`}<//>
  <p class="hint">Or <button type="button" class="link" onClick=${() => { leave(); choosing.value = true; }}>choose any other world</button>, with
    the faults of an outage that happened, or with faults that a seed draws.</p>`;

const Questions = () => html`
  <p class="hint">Think of an answer first. Then compare it, and see it happen.</p>
  <${Listed} of="stories">${all => html`<div class="questions">${all.filter(s => s.asks).map(s => html`
    <details key=${s.name}><summary>${s.asks}</summary>
      <p>${s.answers}</p><p><a class="go" href=${`#story/${s.name}`}>See it happen, in ${plural(s.steps, "step")}: ${s.title}</a></p></details>`)}</div>`}<//>`;

const screens = {start: Start, stories: Stories, challenges: Challenges, questions: Questions};

export function Screen() {
  const title = useRef(), name = screen.value, before = useRef(name);
  // Whoever reads with the keyboard begins at the new title.
  useEffect(() => {
    if (name && name !== before.current) {
      title.current.focus();
      scrollTo({top: 0});
    }
    before.current = name;
  }, [name]);
  if (!name) return null;
  return html`<main class="screen" aria-labelledby="screen-title">
    ${name !== "start" && html`<a class="back" href="#start"><span aria-hidden="true">← </span>All choices</a>`}
    <h2 id="screen-title" tabindex="-1" ref=${title}>${titles[name] || "Who leads, and who only believes it?"}</h2>
    <${screens[name]} /></main>`;
}
