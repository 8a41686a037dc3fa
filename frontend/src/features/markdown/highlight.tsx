/** Colours for code, loaded when the first finished block of code with a language appears. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ReactNode } from "react";

const languages = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  markdown,
  php,
  python,
  ruby,
  rust,
  sql,
  swift,
  typescript,
  xml,
  yaml,
};
for (const [name, grammar] of Object.entries(languages)) hljs.registerLanguage(name, grammar);

interface Node {
  scope?: string;
  children: (Node | string)[];
}

/** Collects what the highlighter finds as a tree, in place of the HTML string that it would build. */
class Tree {
  readonly root: Node = { children: [] };
  private readonly open: Node[] = [this.root];

  addText(text: string): void {
    if (text) this.open.at(-1)!.children.push(text);
  }

  openNode(scope: string): void {
    const node: Node = { scope, children: [] };
    this.open.at(-1)!.children.push(node);
    this.open.push(node);
  }

  closeNode(): void {
    if (this.open.length > 1) this.open.pop();
  }

  startScope(scope: string): void {
    this.openNode(scope);
  }

  endScope(): void {
    this.closeNode();
  }

  __addSublanguage(other: Tree): void {
    this.open.at(-1)!.children.push(...other.root.children);
  }

  finalize(): void {}

  toHTML(): string {
    return "";
  }
}

hljs.configure({ __emitter: Tree } as never);

/** The code with its parts in classes such as `hl-keyword`; plain when the language is not known. */
export function highlightCode(code: string, language: string): ReactNode {
  if (!hljs.getLanguage(language)) return code;
  const result = hljs.highlight(code, { language, ignoreIllegals: true });
  return draw((result._emitter as unknown as Tree).root.children);
}

function draw(nodes: (Node | string)[]): ReactNode {
  return nodes.map((node, index) =>
    typeof node === "string" ? (
      node
    ) : (
      <span key={index} className={`hl-${node.scope?.split(".")[0]?.replace("language:", "")}`}>
        {draw(node.children)}
      </span>
    ),
  );
}
