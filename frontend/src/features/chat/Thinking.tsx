/** The model's reasoning: one line, and behind it a box of fixed greatest height, so that nothing else moves. */
import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";

import { storageRead, storageWrite } from "@/app/storage";

const KEY = "agentx:thinking-open";

interface ThinkingProps {
  text: string;
  live: boolean;
  seconds: number | null;
}

export function Thinking({ text, live, seconds }: ThinkingProps): ReactNode {
  const [open, setOpen] = useState(() => storageRead(KEY) === "yes");
  const box = useRef<HTMLDivElement>(null);
  const id = useId();

  useEffect(() => {
    if (live && open && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, live, open]);

  const toggle = (): void => {
    setOpen(!open);
    storageWrite(KEY, open ? "no" : "yes");
  };

  const title = live
    ? `Thinking, ${seconds ?? 0} s`
    : seconds === null
      ? "Thought before answering"
      : `Thought for ${seconds} s`;
  return (
    <div className="mb-3">
      <button
        type="button"
        className="quiet-button -ml-1.5 tabular-nums"
        aria-expanded={open}
        aria-controls={id}
        onClick={toggle}
      >
        <ChevronRight aria-hidden size={14} className={`transition-transform ${open ? "rotate-90" : ""}`} />
        {live && <span className="running-dot" aria-hidden />}
        {title}
      </button>
      <div
        id={id}
        ref={box}
        hidden={!open}
        // Focusable, since it scrolls.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        role="region"
        aria-label="Thinking"
        className="mt-1 max-h-48 overflow-y-auto border-l-2 border-line-strong pl-4 text-sm leading-relaxed break-words whitespace-pre-wrap text-muted"
      >
        {text}
      </div>
    </div>
  );
}
