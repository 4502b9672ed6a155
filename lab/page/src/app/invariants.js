// The invariants: what holds, what is violated, and what was to be expected.
import {html} from "./html.js";
import {overview, unknown} from "./run.js";
import {go, playing, stop} from "./moment.js";
import {Panel} from "./panel.js";
import {clock} from "./format.js";

// verdict is the word for an invariant, with its mark and class.
function verdict({failed, wants}, over, cut) {
  if (failed) {
    if (wants === "must fail") return ["✗", "violated as expected", ""];
    if (wants === "may fail") return ["✗", "violated; this protocol does not promise it", ""];
    return ["✗", "violated", "wrong"];
  }
  if (cut) return ["…", "held as far as this trace goes", ""];
  if (!over) return ["…", wants === "holds" ? "is being checked" : wants, ""];
  if (wants === "must fail") return ["✓", "held in this run; this protocol does not promise it", ""];
  if (wants === "may fail") return ["✓", "held in this run; not promised", ""];
  return ["✓", "holds", "right"];
}

function jump(failed) {
  if (playing.value) stop();
  go({event: failed.event});
}

export function Invariants() {
  const o = overview.value;
  const all = [...(o?.invariants ?? [])].sort((a, b) => Boolean(b.failed) - Boolean(a.failed));
  if (o && !o.invariants) {
    return html`<${Panel} id="invariants" title="Invariants"><p class="hint">Nobody has judged this trace. ${unknown("terms")}</p><//>`;
  }
  return html`
    <${Panel} id="invariants" title="Invariants">
      <p class="hint">Checked after every event.</p>
      <ul class="invariants" tabindex="0" aria-label="Invariants">${all.map(i => {
        const [mark, word, kind] = verdict(i, o.over, o.trace && !o.trace.whole);
        return html`<li>
          <span class=${`verdict ${kind}`} aria-hidden="true">${mark}</span>
          <div><p><strong>${i.name.replaceAll("-", " ")}</strong> <span class=${kind}>${word}</span></p><p class="hint">${i.says}</p>
            ${i.failed && html`<p>${i.failed.node ? `${i.failed.node}: ` : ""}${i.failed.says}
              <button type="button" onClick=${() => jump(i.failed)}>Go to ${clock(i.failed.at, 3)}</button></p>`}</div></li>`;
      })}</ul>
    <//>`;
}
