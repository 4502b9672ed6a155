// A challenge: what is to be brought about by hand, and what the machines judge of it.
import {effect, html, names, signal, useEffect, useRef} from "./html.js";
import {attempt, call, catalogue, trace, world} from "./run.js";
import {moment, visit} from "./moment.js";
import {decode, encode} from "./link.js";
import {Share} from "./share.js";
import {same} from "./story.js";

export const challenge = signal(null); // as the catalogue has it
const verdict = signal(null); // {of, won, says}: of are the hands that were judged; without says while they are judged

// face opens a challenge, with the hands of somebody's link if it has some. It throws an Error that says what is wrong
// with the link.
export async function face(name, shared) {
  const all = catalogue.value.challenges, c = all.find(c => c.name === name);
  if (!c) throw new Error(`The link has a challenge “${name}”; want one of ${all.map(c => c.name).join(", ")}.`);
  const {world: {hands: done}, moment: at} = shared === undefined ? {world: {}, moment: {time: 0}} : decode(shared);
  if (!await visit({...c.worlds[0], hands: done}, at, true)) return;
  verdict.value = null;
  challenge.value = c;
}

const hands = () => world.value?.hands ?? [];
const text = () => JSON.stringify(hands()); // the lists are made anew while the run grows

// A challenge ends when the visitor opens another world, or a trace.
effect(() => {
  const w = world.value, c = challenge.peek();
  if (c && (trace.value || w && same(w) !== same(c.worlds[0]))) challenge.value = null;
});

async function judge() {
  const of = text(), c = challenge.value;
  verdict.value = {of};
  const v = await attempt(() => call("challenge", {name: c.name, hands: hands()}));
  if (challenge.value === c && verdict.value.of === of) verdict.value = v && {...v, of};
}

// permits says whether a kind of operation may be used now.
export const permits = kind => !challenge.value?.allowed || challenge.value.allowed.includes(kind);

// leave gives the challenge up, and leaves its world as it is.
function leave() {
  challenge.value = null;
  history.replaceState(null, "", "#" + encode(world.value, moment()));
}

const again = () => face(challenge.value.name);
const link = () => `challenge/${challenge.value.name}/${encode({...world.value, hands: hands()}, moment())}`;

function Verdict() {
  const v = verdict.value, fresh = v && v.of === text();
  const says = !v ? "" : !v.says ? "It is judged …" : `${v.won ? "✓ Won" : "✗ Not yet"}: ${v.says}.`;
  return html`<p class=${names("verdict-says", fresh && v.says && (v.won ? "right" : "wrong"))} role="status">
    ${fresh ? says : v?.says ? "You have changed something since; let it be judged again." : ""}</p>
    ${fresh && v.won && html`<div class="guide-end"><${Share} name="Share how" link=${link} /><a class="go" href="#challenges">The other challenges</a></div>`}`;
}

export function Challenge() {
  const c = challenge.value, title = useRef(), n = hands().length;
  useEffect(() => { title.current.focus({preventScroll: true}); }, [c.name]);
  return html`<section id="guide" class="challenge" aria-labelledby="guide-title">
    <div class="guide-head">
      <h2 id="guide-title" tabindex="-1" ref=${title}><span>Challenge</span> ${c.title}</h2>
      <button type="button" class="quiet" onClick=${leave}>Leave<span class="unseen"> the challenge</span></button>
    </div>
    <p class="says">${c.says}</p>
    <p class=${names("hint", !c.allowed && c.worlds.length === 1 && "usual")}>${c.allowed ? `Allowed: ${c.allowed.join(", ")}.` : "All faults are allowed."} Go to a moment, choose a node, and break something; then let it be judged.
      ${c.worlds.length > 1 && ` The same is done in ${c.worlds.length} worlds; you see the first.`}</p>
    <details key=${c.name}><summary>A hint</summary><p>${c.hint}</p></details>
    <div class="buttons"><button type="button" class="main" onClick=${judge}>Judge me</button>
      <button type="button" onClick=${again}>Start over</button><span class=${names("hint", n === 0 && "usual")}>${n === 0 ? "You have done nothing yet." : `Done by you: ${n}.`}</span></div>
    <${Verdict} /></section>`;
}
