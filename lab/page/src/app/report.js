// The figures of a comparison, and how long the failovers took.
import {html} from "./html.js";
import {Table} from "./panel.js";
import {count} from "./format.js";

const ms = n => (n === null || n === undefined ? "–" : n >= 10_000 ? `${(n / 1000).toFixed(1)} s` : `${n < 10 ? n.toFixed(1) : Math.round(n)} ms`);

const columns = [
  ["Protocol", l => l.protocol],
  ["Available", l => `${(100 * l.availability).toFixed(2)} %`],
  ["Failovers", l => count(l.failovers)],
  ["half within", l => ms(l.failover_p50_ms)],
  ["99 % within", l => ms(l.failover_p99_ms)],
  ["longest", l => ms(l.failover_longest_ms)],
  ["Messages an election", l => l.messages_per_election?.toFixed(1) ?? "–"],
  ["Messages a second", l => l.messages_per_second.toFixed(1)],
  ["Leader changes", l => count(l.leader_changes)],
  ["Two leaders", l => (l.two_leaders_ms > 0 ? html`<strong class="wrong">${ms(l.two_leaders_ms)}</strong>` : "never")],
  ["Stale writes", l => html`${l.stale_accepted > 0 ? html`<strong class="wrong">${count(l.stale_accepted)} accepted</strong>` : "none accepted"}, ${count(l.stale_refused)} refused`],
  ["Violated", l => (l.violated_runs > 0 ? html`<strong class="wrong">${count(l.violated_runs)} of ${count(l.runs)} runs</strong>` : `0 of ${count(l.runs)} runs`)],
];

const width = 640, height = 220, left = 44, bottom = 26;

// Failovers draws which part of the failovers took at most how long; time is logarithmic.
function Failovers({lines}) {
  const all = lines.filter(l => l.failover_quantiles?.length > 0);
  if (all.length === 0) return null;
  const times = all.flatMap(l => l.failover_quantiles.map(q => Math.max(q.ms, 1)));
  const least = 10 ** Math.floor(Math.log10(Math.min(...times))), most = 10 ** Math.ceil(Math.log10(Math.max(...times) + 1));
  const x = t => left + Math.log10(Math.max(t, least) / least) / Math.log10(most / least) * (width - left - 110);
  const y = part => 8 + (1 - part) * (height - bottom - 8);
  const marks = [];
  for (let t = least; t <= most; t *= 10) marks.push(t);
  return html`<h3>How long a failover took</h3>
    <svg class="quantiles" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label="Part of the failovers within a time; the table has the half, the 99th part of a hundred, and the longest">
      ${marks.map(t => html`<path class="grid" d=${`M${x(t)} 8V${height - bottom}`} /><text x=${x(t)} y=${height - 8} text-anchor="middle">${ms(t)}</text>`)}
      ${[0, 0.5, 1].map(f => html`<path class="grid" d=${`M${left} ${y(f)}H${width - 110}`} /><text x=${left - 6} y=${y(f) + 4} text-anchor="end">${f * 100} %</text>`)}
      ${all.map((l, i) => {
        const d = l.failover_quantiles.map((q, k) => `${k ? "L" : "M"}${x(q.ms).toFixed(1)} ${y(q.part).toFixed(1)}`).join("");
        const dash = ["", "6 3", "2 3", "8 3 2 3", "1 4", "12 4", "4 4"][i % 7];
        return html`<g class=${`t${i % 6}`}><path class="curve" d=${d} stroke-dasharray=${dash} />
          <path class="curve" d=${`M${width - 100} ${16 + i * 18}h18`} stroke-dasharray=${dash} /><text x=${width - 78} y=${20 + i * 18}>${l.protocol}</text></g>`;
      })}
    </svg>`;
}

export function Report({lines}) {
  if (lines.length === 0) return null;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Figures"><${Table} caption="Comparison" head=${columns.map(c => c[0])} rows=${lines.map(l => columns.map(([, of]) => of(l)))} /></div>
    <${Failovers} lines=${lines} />`;
}
