/** What was done on the way to an answer: a quiet line for each call, and behind it what was asked and what came back. */
import { ChevronRight, CircleAlert, CircleCheck, CircleDashed } from "lucide-react";
import { Fragment, type ReactNode, useId, useState } from "react";

import { Bubble } from "./Bubble";
import { aboutOf, type Step } from "./steps";

/** More finished steps than this are folded into one line. */
const FOLDED_FROM = 5;

export function Steps({ steps }: { steps: Step[] }): ReactNode {
  const [unfolded, setUnfolded] = useState(false);
  const id = useId();
  if (steps.length === 0) return null;
  const calls = steps.filter((step) => step.state !== "aside");
  // What a person said stays in sight.
  const whole = calls.length === steps.length;
  const foldable = whole && calls.length >= FOLDED_FROM && calls.every((step) => step.state !== "running");
  const failed = steps.filter((step) => step.state === "failed").length;
  return (
    <div className="mb-3 text-sm">
      {foldable && (
        <button
          type="button"
          className="quiet-button -ml-1.5"
          aria-expanded={unfolded}
          aria-controls={id}
          onClick={() => setUnfolded(!unfolded)}
        >
          <Arrow open={unfolded} />
          {calls.length} steps{failed > 0 && `, ${failed} failed`}
        </button>
      )}
      <ul id={id} hidden={foldable && !unfolded} aria-label="Steps">
        {steps.map((step, index) => (
          // Ids may come again; steps are only ever added at the end.
          // oxlint-disable-next-line react/no-array-index-key
          <Fragment key={index}>
            {step.state === "aside" ? <Aside text={step.said} /> : <StepLine step={step} />}
          </Fragment>
        ))}
      </ul>
    </div>
  );
}

function Aside({ text }: { text: string }): ReactNode {
  return (
    <li className="flex justify-end py-2">
      <Bubble>
        <span className="sr-only">You, meanwhile: </span>
        {text}
      </Bubble>
    </li>
  );
}

function StepLine({ step }: { step: Step }): ReactNode {
  const [open, setOpen] = useState(false);
  const id = useId();
  const about = aboutOf(step);
  return (
    <li>
      {step.said && <p className="py-1 break-words whitespace-pre-wrap text-muted">{step.said}</p>}
      <button
        type="button"
        className="quiet-button -ml-1.5 max-w-full min-w-0 tabular-nums"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        <Arrow open={open} />
        <Mark state={step.state} />
        <span className="shrink-0">{step.label}</span>
        {about && <span className="min-w-0 truncate text-ink">{about}</span>}
        {step.seconds !== null && step.seconds >= 0.1 && (
          <span className="shrink-0">{step.seconds.toFixed(1)} s</span>
        )}
      </button>
      <dl
        id={id}
        hidden={!open}
        className="mt-1 mb-2 ml-1 border-l-2 border-line-strong pl-4 break-words text-muted"
      >
        <dt className="font-medium">Asked with</dt>
        <dd className="font-mono text-[0.8125rem] break-all whitespace-pre-wrap">{step.arguments || "{}"}</dd>
        <dt className="mt-1 font-medium">{step.state === "failed" ? "What went wrong" : "Result"}</dt>
        <dd className="whitespace-pre-wrap">{outcomeOf(step)}</dd>
      </dl>
    </li>
  );
}

function outcomeOf(step: Step): string {
  if (step.state === "running") return "Not there yet";
  return step.state === "unknown" ? "Not received; a reload shows it" : step.summary;
}

function Arrow({ open }: { open: boolean }): ReactNode {
  return (
    <ChevronRight
      aria-hidden
      size={14}
      className={`shrink-0 transition-transform ${open ? "rotate-90" : ""}`}
    />
  );
}

function Mark({ state }: { state: Step["state"] }): ReactNode {
  if (state === "running") return <span className="running-dot shrink-0" aria-hidden />;
  if (state === "unknown") return <CircleDashed aria-label="Not known" size={14} className="shrink-0" />;
  if (state === "ok") return <CircleCheck aria-label="Done" size={14} className="shrink-0" />;
  return <CircleAlert aria-label="Failed" size={14} className="shrink-0 text-danger-ink" />;
}
