/** Markdown tokens as React elements. No HTML string exists anywhere: tags in the text are shown as text. */
import type { Token, Tokens } from "marked";
import { Fragment, type ReactNode } from "react";

import { CodeBlock } from "./CodeBlock";
import { Formula } from "./Formula";
import { isMath } from "./lexer";
import { safeHref } from "./links";

const DEEPEST = 40;

export interface RenderOptions {
  /** False while the last block may still be growing. */
  complete: boolean;
}

export function renderTokens(tokens: Token[], options: RenderOptions, depth = 0): ReactNode {
  return tokens.map((token, index) => <Fragment key={index}>{renderToken(token, options, depth)}</Fragment>);
}

function renderToken(token: Token, options: RenderOptions, depth: number): ReactNode {
  if (depth > DEEPEST) return token.raw;
  if (isMath(token)) return <Formula raw={token.raw} text={token.text} display={token.display} />;
  const inside = (): ReactNode =>
    "tokens" in token && token.tokens
      ? renderTokens(token.tokens, options, depth + 1)
      : decode(textOf(token));
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return renderHeading((token as Tokens.Heading).depth, inside());
    case "paragraph":
      return <p>{inside()}</p>;
    case "text":
      return inside();
    case "escape":
      return textOf(token);
    case "html":
      return (token as Tokens.HTML).block ? (
        <p className="whitespace-pre-wrap">{token.raw.trimEnd()}</p>
      ) : (
        token.raw
      );
    case "strong":
      return <strong>{inside()}</strong>;
    case "em":
      return <em>{inside()}</em>;
    case "del":
      return <del>{inside()}</del>;
    case "br":
      return <br />;
    case "hr":
      return <hr />;
    case "codespan":
      return <code>{textOf(token)}</code>;
    case "code":
      return (
        <CodeBlock
          code={textOf(token)}
          lang={(token as Tokens.Code).lang ?? ""}
          complete={options.complete}
        />
      );
    case "blockquote":
      return <blockquote>{inside()}</blockquote>;
    case "list":
      return renderList(token as Tokens.List, options, depth);
    case "table":
      return renderTable(token as Tokens.Table, options, depth);
    case "link":
      return renderLink((token as Tokens.Link).href, inside());
    case "image":
      return renderLink((token as Tokens.Image).href, textOf(token) || "Image");
    default:
      return token.raw;
  }
}

function textOf(token: Token): string {
  return "text" in token && typeof token.text === "string" ? token.text : token.raw;
}

/** Headings in an answer start below the page's own. */
function renderHeading(level: number, children: ReactNode): ReactNode {
  const Tag = (["h2", "h3", "h4", "h5", "h6", "h6"] as const)[level - 1] ?? "h6";
  return <Tag>{children}</Tag>;
}

function renderLink(href: string, children: ReactNode): ReactNode {
  const safe = safeHref(href);
  if (safe === null) return children;
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function renderList(list: Tokens.List, options: RenderOptions, depth: number): ReactNode {
  const items = list.items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined}>
      {item.task && (
        <input
          type="checkbox"
          checked={Boolean(item.checked)}
          disabled
          aria-label={item.checked ? "Done" : "Not done"}
        />
      )}
      {renderTokens(
        item.tokens.filter((token) => token.type !== "checkbox"),
        options,
        depth + 1,
      )}
    </li>
  ));
  return list.ordered ? <ol start={list.start === "" ? 1 : list.start}>{items}</ol> : <ul>{items}</ul>;
}

function renderTable(table: Tokens.Table, options: RenderOptions, depth: number): ReactNode {
  const cell = (content: Tokens.TableCell, column: number, Tag: "th" | "td"): ReactNode => (
    <Tag key={column} className={align(table.align[column])} scope={Tag === "th" ? "col" : undefined}>
      {renderTokens(content.tokens, options, depth + 1)}
    </Tag>
  );
  return (
    // Focusable, since a wide table scrolls in its own box and must be reachable without a mouse.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="scroll-box" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>{table.header.map((content, column) => cell(content, column, "th"))}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>{row.map((content, column) => cell(content, column, "td"))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function align(side: string | null | undefined): string | undefined {
  return side === "right" ? "text-right" : side === "center" ? "text-center" : undefined;
}

const ENTITIES: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  mdash: "—",
  ndash: "–",
  hellip: "…",
  rarr: "→",
  larr: "←",
  times: "×",
  deg: "°",
};

/** The character references that models write; the rest stays as it is. */
function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(#x[\da-f]{1,6}|#\d{1,7}|\w{2,6});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = name[1]?.toLowerCase() === "x" ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
