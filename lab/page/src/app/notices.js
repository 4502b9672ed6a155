// What stands above every page: what went wrong, and the help.
import {html} from "./html.js";
import {problem} from "./run.js";

// Problem says what went wrong last.
export const Problem = () => html`<div class="problem" role="alert">${problem.value && html`
  <p>${problem.value}</p><button type="button" onClick=${() => { problem.value = ""; }}>Close</button>`}</div>`;

// Help is the dialog that lists keys, with a sentence about the page.
export const Help = ({dialog, keys, children}) => html`
  <dialog id="help" ref=${dialog} aria-labelledby="help-title">
    <h2 id="help-title">Keyboard</h2>
    <dl>${keys.filter(k => k.name).map(({name, says}) => html`<div><dt><kbd>${name}</kbd></dt><dd>${says}</dd></div>`)}</dl>
    <p>${children}
      <a href="licences.txt"> Licences of what this page is made of</a></p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
