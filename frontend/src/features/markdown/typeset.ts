/** Sets formulas, loaded when the first one appears. */
import "katex/dist/katex.min.css";

import { render } from "katex";

/** Builds the formula's elements in `target`. False when it is no formula. */
export function typesetFormula(formula: string, target: HTMLElement, display: boolean): boolean {
  try {
    // Elements, not HTML strings; `trust` off: no links, classes or images from within a formula.
    render(formula, target, {
      displayMode: display,
      trust: false,
      strict: "ignore",
      maxExpand: 500,
      maxSize: 20,
    });
    return true;
  } catch {
    return false;
  }
}
