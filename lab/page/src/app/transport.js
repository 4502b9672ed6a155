// The transport: play, step, jump, speed, and the timeline of the whole run.
import {html, names, useSignal} from "./html.js";
import {overview, world} from "./run.js";
import {elections, event, playing, slow, speed, step, time, toggle, turn, violations, visit} from "./moment.js";
import {Button} from "./panel.js";
import {Timeline} from "./timeline.js";
import {clock, count, speed as speedName} from "./format.js";
import {Announcer, say} from "./announce.js";

// jump goes to a turn, and says so if there is none.
export function jump(back, kinds, what) {
  const found = turn(back, kinds);
  say(found ? found.says : `There is no ${back ? "earlier" : "later"} ${what}.`);
}

// reset opens the world without what the visitor did, at its beginning.
export function reset() {
  if (!world.value) return;
  const {hands, ...rest} = world.value;
  visit(rest);
}

function Speed() {
  const power = Math.log10(speed.value);
  return html`
    <label class="speed"><span class="unseen">Speed</span>
      <input type="range" min="-3" max="2" step="0.1" value=${power} aria-valuetext=${speedName(speed.value)}
        onInput=${e => { speed.value = Number((10 ** e.target.value).toPrecision(2)); }} />
      <output>${speedName(speed.value)}</output>
    </label>
    <label class="check"><input type="checkbox" checked=${slow.value} onChange=${e => { slow.value = e.target.checked; }} />
      Slow at elections</label>`;
}

function Seed() {
  const w = world.value;
  if (!w) return null;
  const own = w.schedule !== undefined;
  const set = e => {
    const seed = Number(e.target.value);
    if (Number.isSafeInteger(seed) && seed > 0) visit({...w, hands: [], seed});
    else e.target.value = String(w.seed || 1);
  };
  return !own && html`<label class="seed">Seed
    <input type="number" inputmode="numeric" min="1" step="1" value=${w.seed || 1} onChange=${set} /></label>`;
}

const Now = () => html`<p class="now"><strong>${clock(time.value)}</strong>
  <span>event ${count(event.value)} of ${count(overview.value?.events ?? 0)}${overview.value?.over ? "" : " …"}</span></p>`;

export function Transport() {
  const more = useSignal(false); // on a phone, what is not needed all the time is put away
  return html`
    <section class="panel" id="transport" aria-labelledby="transport-title">
      <h2 class="unseen" id="transport-title">Transport</h2>
      <div class=${names("transport-row", more.value && "more")}>
        <div class="buttons" role="group" aria-label="Steps">
          <${Button} mark="⇤" name="Previous turn (Shift ←)" onClick=${() => jump(true, null, "turn")} />
          <${Button} mark="←" name="One event back (←)" onClick=${() => step(-1)} />
          <button type="button" class="play" aria-keyshortcuts="Space" onClick=${toggle}>
            <span aria-hidden="true">${playing.value ? "❚❚" : "▶"}</span> ${playing.value ? "Pause" : "Play"}</button>
          <${Button} mark="→" name="One event on (→)" onClick=${() => step(1)} />
          <${Button} mark="⇥" name="Next turn (Shift →)" onClick=${() => jump(false, null, "turn")} />
        </div>
        <${Now} />
        <button type="button" class="more-button" aria-expanded=${String(more.value)} onClick=${() => { more.value = !more.value; }}>More</button>
        <div class="buttons" role="group" aria-label="Jumps">
          <button type="button" title="Next election (E)" onClick=${() => jump(false, elections, "election")}>Next election</button>
          <button type="button" title="Next violation (V)" onClick=${() => jump(false, violations, "violation")}>Next violation</button>
        </div>
        <${Speed} />
        <div class="buttons last">
          <${Seed} />
          ${world.value && html`<button type="button" title="Begin anew, without what you did (R)" onClick=${reset}>Reset</button>`}
        </div>
      </div>
      <${Timeline} />
      <${Announcer} />
    </section>`;
}
