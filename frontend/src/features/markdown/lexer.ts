/** The dialect that is read: GitHub's, with maths between `$$`, `\(…\)` and `\[…\]`. A lone `$` is a dollar. */
import { Lexer, Marked, type Token, type TokenizerExtension } from "marked";

export interface MathToken {
  type: "math";
  raw: string;
  text: string;
  display: boolean;
}

// No blank line inside: a formula must not be able to join two blocks of a growing text.
const BLOCK =
  /^ {0,3}(?:\$\$((?:(?!\n[ \t]*\n)[^$])+?)\$\$|\\\[((?:(?!\n[ \t]*\n)[\s\S])+?)\\\])[ \t]*(?:\n+|$)/;
const INLINE =
  /^(?:\$\$(?=\S)([^$\n]*?\S)\$\$(?!\$)|\\\(((?:(?!\n[ \t]*\n)[\s\S])+?)\\\)|\\\[((?:(?!\n[ \t]*\n)[\s\S])+?)\\\])/;

function findStart(source: string, pattern: RegExp): number | undefined {
  const index = source.search(pattern);
  return index < 0 ? undefined : index;
}

const mathBlock: TokenizerExtension = {
  name: "mathBlock",
  level: "block",
  start: (source) => findStart(source, /(?<=\n) {0,3}(?:\$\$|\\\[)/),
  tokenizer: (source) => {
    const found = BLOCK.exec(source);
    return found ? makeToken(found[0], found[1] ?? found[2], true) : undefined;
  },
};

const mathInline: TokenizerExtension = {
  name: "mathInline",
  level: "inline",
  start: (source) => findStart(source, /\$\$|\\\(|\\\[/),
  tokenizer: (source) => {
    const found = INLINE.exec(source);
    return found ? makeToken(found[0], found[1] ?? found[2] ?? found[3], found[3] !== undefined) : undefined;
  },
};

function makeToken(raw: string, text: string | undefined, display: boolean): MathToken | undefined {
  const formula = text?.trim();
  return formula ? { type: "math", raw, text: formula, display } : undefined;
}

const options = new Marked({ gfm: true, extensions: [mathBlock, mathInline] }).defaults;

export function makeLexer(): Lexer {
  return new Lexer(options);
}

export function isMath(token: Token): token is MathToken {
  return token.type === "math";
}
