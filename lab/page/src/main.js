// The page: a header, a place for each panel, the status line, and the help.
import {h, render} from "preact";
import {useEffect, useRef} from "preact/hooks";
import htm from "htm";
import {open} from "./client.js";

const html = htm.bind(h);
const machines = open();

// keys are what the keyboard does, as the help shows it and the page obeys it.
const keys = [
  {key: "?", says: "show this help, or close it", act: page => page.help()},
];

// panels are the places of the page, in the order of reading. What show returns is within.
const panels = [
  {id: "transport", title: "Transport"},
  {id: "cluster", title: "Cluster"},
  {id: "lanes", title: "Who leads"},
  {id: "messages", title: "Messages"},
  {id: "node", title: "Node"},
  {id: "log", title: "Log"},
];

const Panel = ({id, title, show}) => html`
  <section class="panel" id=${id} aria-labelledby=${id + "-title"}>
    <h2 id=${id + "-title"}>${title}</h2>
    ${show?.()}
  </section>`;

const size = bytes => `${(bytes / 1e6).toFixed(1)} MB`;

// Status is the one line that says how the machines are.
function Status() {
  const {phase, loaded, total, error} = machines.state.value;
  switch (phase) {
    case "loading":
      return html`
        <p id="status" role="status">Loading the machines</p>
        ${total > 0 && html`<progress aria-label="Machines loaded" max=${total} value=${loaded}></progress>`}
        <p>${size(loaded)}${total > 0 && ` of ${size(total)}`}</p>`;
    case "starting":
      return html`<p id="status" role="status">Starting the machines</p>`;
    case "ready":
      return html`<p id="status" role="status">The machines are ready.</p>`;
  }
  return html`<p id="status" role="alert">${error}</p>`;
}

const Help = ({dialog}) => html`
  <dialog id="help" ref=${dialog} aria-labelledby="help-title">
    <h2 id="help-title">Keyboard</h2>
    <dl>${keys.map(({key, says}) => html`<div><dt><kbd>${key}</kbd></dt><dd>${says}</dd></div>`)}</dl>
    <p>The machines are those of <code>elect</code>, compiled for the browser. Nothing is sent anywhere.
      <a href="licences.txt"> Licences of what this page is made of</a></p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;

function Page() {
  const dialog = useRef();
  const page = {help: () => dialog.current.open ? dialog.current.close() : dialog.current.showModal()};
  useEffect(() => {
    const pressed = event => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
      const found = keys.find(({key}) => key === event.key);
      if (!found) return;
      event.preventDefault();
      found.act(page);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return html`
    <header>
      <h1>elect <span>the laboratory</span></h1>
      <button type="button" aria-haspopup="dialog" aria-label="Help" onClick=${page.help}>?</button>
    </header>
    <main>${panels.map(p => html`<${Panel} key=${p.id} ...${p} />`)}</main>
    <footer><${Status} /></footer>
    <${Help} dialog=${dialog} />`;
}

render(html`<${Page} />`, document.body);

// For the console, and for tests.
globalThis.elect = machines;
