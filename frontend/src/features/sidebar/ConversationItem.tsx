/** One conversation in the list: opens it, says whether it is being answered, and carries its menu. */
import { Ellipsis, Pencil, Trash2 } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";

import { Menu, MenuItem } from "@/ui/Menu";
import type { ConversationBody } from "@/wire/schema";

import { useRename } from "./conversations";

interface ConversationItemProps {
  conversation: ConversationBody;
  current: boolean;
  onOpen: () => void;
  onDelete: () => void;
}

export function ConversationItem({
  conversation,
  current,
  onOpen,
  onDelete,
}: ConversationItemProps): ReactNode {
  const [renaming, setRenaming] = useState(false);
  const trigger = useRef<HTMLButtonElement>(null);
  const title = conversation.title || "New chat";
  const opensEditor = useRef(false);

  if (renaming) {
    return (
      <li>
        <RenameBox
          conversation={conversation}
          onDone={() => {
            setRenaming(false);
            requestAnimationFrame(() => trigger.current?.focus());
          }}
        />
      </li>
    );
  }
  return (
    <li
      className={`group relative flex items-center rounded-lg transition-colors ${current ? "bg-hover" : "hover:bg-hover"}`}
    >
      <a
        href={`/c/${conversation.id}`}
        aria-current={current ? "page" : undefined}
        className="touch flex min-h-9 min-w-0 flex-1 items-center gap-2 rounded-lg py-1 pr-2 pl-2 text-sm group-focus-within:pr-10 group-hover:pr-10 coarse:pr-12"
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
          event.preventDefault();
          onOpen();
        }}
      >
        <span className="truncate">{title}</span>
        {conversation.active_run && (
          <>
            <span className="running-dot" aria-hidden />
            <span className="sr-only">is being answered</span>
          </>
        )}
      </a>
      <Menu
        keepFocus={() => opensEditor.current}
        trigger={
          <button
            ref={trigger}
            type="button"
            aria-label={`Actions for ${title}`}
            onPointerDown={() => (opensEditor.current = false)}
            onKeyDown={() => (opensEditor.current = false)}
            className="touch absolute right-1 inline-flex size-7 shrink-0 items-center justify-center rounded-md text-muted opacity-0 transition-opacity group-hover:opacity-100 hover:text-ink focus-visible:opacity-100 data-[state=open]:opacity-100 coarse:opacity-100"
          >
            <Ellipsis aria-hidden size={16} />
          </button>
        }
      >
        <MenuItem
          icon={<Pencil aria-hidden size={15} className="text-muted" />}
          onSelect={() => {
            opensEditor.current = true;
            setRenaming(true);
          }}
        >
          Rename
        </MenuItem>
        <MenuItem
          danger
          icon={<Trash2 aria-hidden size={15} />}
          onSelect={() => {
            opensEditor.current = true;
            onDelete();
          }}
        >
          Delete
        </MenuItem>
      </Menu>
    </li>
  );
}

function RenameBox({
  conversation,
  onDone,
}: {
  conversation: ConversationBody;
  onDone: () => void;
}): ReactNode {
  const rename = useRename();
  const [title, setTitle] = useState(conversation.title);
  const left = useRef(false);

  const finish = (save: boolean): void => {
    if (left.current) return;
    left.current = true;
    const wanted = title.trim();
    if (save && wanted && wanted !== conversation.title)
      rename.mutate({ id: conversation.id, title: wanted });
    onDone();
  };
  return (
    <input
      // The person has just asked for it.
      // oxlint-disable-next-line jsx-a11y/no-autofocus
      autoFocus
      aria-label="Title"
      value={title}
      maxLength={200}
      onChange={(event) => setTitle(event.target.value)}
      onFocus={(event) => event.target.select()}
      onBlur={() => finish(true)}
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter") finish(true);
        if (event.key === "Escape") {
          event.preventDefault();
          finish(false);
        }
      }}
      className="touch h-9 w-full rounded-lg border border-accent bg-surface px-2 text-base outline-none lg:text-sm"
    />
  );
}
