/** Dialogs: one that asks before something is lost, and a plain one. */
import { AlertDialog } from "radix-ui";
import type { ReactNode } from "react";

import { Button } from "./Button";

export const OVERLAY = "fixed inset-0 z-40 bg-overlay fade-in";
export const PANEL =
  "fixed left-1/2 top-1/2 z-50 w-[min(92vw,26rem)] -translate-x-1/2 -translate-y-1/2 rounded-2xl border border-line bg-surface p-6 shadow-panel fade-in";

interface ConfirmProps {
  open: boolean;
  title: string;
  text: ReactNode;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
  /** Where the keyboard goes afterwards, since what opened the dialog may be gone. */
  returnFocus?: () => HTMLElement | null;
}

export function ConfirmDialog({
  open,
  title,
  text,
  action,
  onConfirm,
  onClose,
  returnFocus,
}: ConfirmProps): ReactNode {
  return (
    <AlertDialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className={OVERLAY} />
        <AlertDialog.Content
          className={PANEL}
          onCloseAutoFocus={(event) => {
            const target = returnFocus?.();
            if (!target) return;
            event.preventDefault();
            target.focus();
          }}
        >
          <AlertDialog.Title className="text-lg font-semibold">{title}</AlertDialog.Title>
          <AlertDialog.Description className="mt-2 text-sm text-muted break-words">
            {text}
          </AlertDialog.Description>
          <div className="mt-6 flex justify-end gap-2">
            <AlertDialog.Cancel asChild>
              <Button>Cancel</Button>
            </AlertDialog.Cancel>
            <AlertDialog.Action asChild>
              <Button weight="danger" onClick={onConfirm}>
                {action}
              </Button>
            </AlertDialog.Action>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
