/** A block of code: its language, a copy button, and colours once it is complete. */
import { Check, Copy } from "lucide-react";
import { memo, type ReactNode, useEffect, useState } from "react";

import { copyText } from "@/ui/clipboard";

interface CodeBlockProps {
  code: string;
  lang: string;
  complete: boolean;
}

type Highlight = (code: string, language: string) => ReactNode;

let highlighter: Highlight | null = null;
/** Colouring more than this would block typing for longer than the colours are worth. */
const MOST_CHARACTERS = 60_000;

export const CodeBlock = memo(function CodeBlock({ code, lang, complete }: CodeBlockProps): ReactNode {
  const language = lang.trim().split(/\s/)[0]?.toLowerCase() ?? "";
  const wanted = complete && language !== "" && code.length <= MOST_CHARACTERS;
  const [highlight, setHighlight] = useState<Highlight | null>(() => highlighter);

  useEffect(() => {
    if (!wanted || highlight) return;
    let current = true;
    import("./highlight")
      .then((module) => {
        highlighter = module.highlightCode;
        if (current) setHighlight(() => module.highlightCode);
      })
      .catch(() => undefined); // without colours the code is still there
    return () => {
      current = false;
    };
  }, [wanted, highlight]);

  return (
    <figure className="code-block">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      {/* Focusable: long lines scroll inside, which must work from the keyboard. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <pre tabIndex={0} role="region" aria-label={language ? `Code, ${language}` : "Code"}>
        <code>{wanted && highlight ? highlight(code, language) : code}</code>
      </pre>
    </figure>
  );
});

interface CopyButtonProps {
  text: string;
  label: string;
}

/** Says what came of it in its own words for two seconds; the words are announced. */
export function CopyButton({ text, label }: CopyButtonProps): ReactNode {
  const [outcome, setOutcome] = useState<"copied" | "failed" | null>(null);

  useEffect(() => {
    if (!outcome) return;
    const timer = setTimeout(() => setOutcome(null), 2_000);
    return () => clearTimeout(timer);
  }, [outcome]);

  const said = outcome === "copied" ? "Copied" : outcome === "failed" ? "Could not copy" : "";
  return (
    <button
      type="button"
      className="quiet-button"
      aria-label={label}
      onClick={async () => setOutcome((await copyText(text)) ? "copied" : "failed")}
    >
      {outcome === "copied" ? <Check aria-hidden size={14} /> : <Copy aria-hidden size={14} />}
      <span aria-live="polite" className={outcome === "failed" ? "" : "sr-only"}>
        {said}
      </span>
    </button>
  );
}
