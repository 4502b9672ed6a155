// What every module of the page draws with.
import {h} from "preact";
import htm from "htm";

export const html = htm.bind(h);
export {options, render} from "preact";
export {useEffect, useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";
export {batch, computed, effect, signal, useComputed, useSignal} from "@preact/signals";

// names joins the names of classes, without those that are false.
export const names = (...all) => all.filter(Boolean).join(" ");
