/**
 * Cuts markdown into top-level blocks, so that a growing text re-renders its last block alone. A block is identified by
 * its source text: as long as that is the same, nothing about it is computed or drawn again.
 */
import type { Lexer, Links } from "marked";

import { makeLexer } from "./lexer";

export interface Blocks {
  text: string;
  blocks: string[];
  /** Definitions such as `[name]: https://…`, which may be used in any block. */
  links: Links;
}

export const NO_BLOCKS: Blocks = { text: "", blocks: [], links: {} };

/** Longer messages are shown as plain text until formatting is asked for. */
export const PLAIN_ABOVE = 200_000;
/** Deeper nesting than anyone writes: the lexer would overflow its stack or take seconds. */
const DEEPEST = 32;
const TOO_DEEP = new RegExp(
  `^(?:[ \\t]*(?:>|[-*+]|\\d{1,9}[.)])(?=[ \\t>]|$)){${DEEPEST},}|^[ \\t]{${DEEPEST * 2},}(?:[-*+>]|\\d+[.)]) `,
  "m",
);

export function isTooDeep(text: string): boolean {
  return TOO_DEEP.test(text);
}

/**
 * Emphasis within emphasis beyond `DEEPEST`, told by markers that close one after the other. The lexer's time grows with
 * the square of that depth: ten thousand levels would stop the page for a minute.
 */
export function isEmphasisTooDeep(text: string): boolean {
  let open = 0;
  let closing = 0;
  for (const marker of text.matchAll(/[*_~]+/g)) {
    const length = marker[0].length;
    const starts = isBoundary(text[marker.index - 1]);
    const ends = isBoundary(text[marker.index + length]);
    if (starts && !ends) {
      open += length;
      closing = 0;
    } else if (ends && !starts) {
      closing += length;
      if (Math.min(open, closing) > DEEPEST) return true;
    }
  }
  return false;
}

function isBoundary(character: string | undefined): boolean {
  return character === undefined || /[\s\p{P}]/u.test(character);
}

/**
 * The blocks of `source`, reusing `before` when `source` only adds to it. The last two blocks may still change their kind
 * (a paragraph becomes a table, a list goes on after a blank line), all earlier ones are final.
 */
export function splitBlocks(source: string, before: Blocks = NO_BLOCKS): Blocks {
  const text = source.includes("\r") ? source.replace(/\r\n?/g, "\n") : source;
  if (text === before.text) return before;
  const kept = text.startsWith(before.text)
    ? before.blocks.slice(0, Math.max(0, before.blocks.length - 2))
    : [];
  const offset = kept.reduce((sum, block) => sum + block.length, 0);
  const rest = text.slice(offset);
  const lexer = makeLexer();
  let blocks: string[] = [];
  let links = kept.length > 0 ? before.links : {};
  try {
    const found = isTooDeep(rest) ? null : blockSources(rest, lexer);
    blocks = found ?? [rest];
    if (found && Object.keys(lexer.tokens.links).length > 0) links = { ...links, ...lexer.tokens.links };
  } catch {
    blocks = [rest];
  }
  return { text, blocks: [...kept, ...blocks], links };
}

/** Sources that joined are exactly `text`; blank lines belong to the block before them. */
function blockSources(text: string, lexer: Lexer): string[] | null {
  const sources: string[] = [];
  for (const token of lexer.blockTokens(text, [])) {
    if (token.type === "space" && sources.length > 0) sources[sources.length - 1] += token.raw;
    else sources.push(token.raw);
  }
  return sources.join("") === text ? sources : null;
}

/** Whether a fenced block's closing fence has come. Indented code is never fenced. */
export function isFenceClosed(raw: string): boolean {
  const open = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!open) return true;
  const last = raw.trimEnd().split("\n").slice(1).at(-1)?.trim() ?? "";
  return last.length >= open.length && last === open[0]!.repeat(last.length);
}
