"""The LLVM IR of the CPU's command processor; `$NAME` is a number of queues.cpu.packets/cpu_state.

How threads synchronise, with every atomic sequentially consistent:
* The submitting thread writes JOB_*, then OPEN = 1, then GENERATION + 1, and takes chunks itself.
* A worker joins with ACTIVE + 1 and only then reads OPEN; it leaves with ACTIVE - 1.
* The submitting thread ends a kernel with OPEN = 0 and waits until ACTIVE is 0. So a worker that
  is late either sees OPEN = 0 or is waited for; JOB_* never change under a worker that runs.
* Workers are optional: without them the submitting thread does all the work.
"""

from __future__ import annotations

from typing import Final

DECLARATIONS: Final = """
declare ptr @memmove(ptr, ptr, i64)
declare i64 @syscall(i64, ptr, i64, i64, ptr, ptr, i64)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now_ns() {
  %time = alloca [2 x i64]
  %rc = call i32 @clock_gettime(i32 1, ptr %time)             ; CLOCK_MONOTONIC
  %s = load i64, ptr %time
  %ns_ptr = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %ns_ptr
  %s_ns = mul i64 %s, 1000000000
  %all = add i64 %s_ns, %ns
  ret i64 %all
}

define internal void @futex_sleep(ptr %word, i32 %seen) noinline cold {
  %value = zext i32 %seen to i64                              ; FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  %rc = call i64 @syscall(i64 $futex, ptr %word, i64 128, i64 %value, ptr null, ptr null, i64 0)
  ret void
}

define internal void @futex_wake(ptr %word) noinline cold {   ; FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  %rc = call i64 @syscall(i64 $futex, ptr %word, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}

define internal ptr @scratch_of(ptr %state, i64 %worker) {
  %base_ptr = getelementptr i8, ptr %state, i64 $SCRATCH_BASE
  %base = load ptr, ptr %base_ptr
  %stride_ptr = getelementptr i8, ptr %state, i64 $SCRATCH_STRIDE
  %stride = load i64, ptr %stride_ptr
  %off = mul i64 %stride, %worker
  %at = getelementptr i8, ptr %base, i64 %off
  ret ptr %at
}
"""

CHUNKS: Final = """
; Take chunks of the open kernel until none is left, or HOLD is set.
define internal void @run_chunks(ptr %state, i64 %worker) {
entry:
  %entry_ptr = getelementptr i8, ptr %state, i64 $JOB_ENTRY
  %kernel = load ptr, ptr %entry_ptr
  %args_ptr = getelementptr i8, ptr %state, i64 $JOB_ARGS
  %args = load ptr, ptr %args_ptr
  %grid_ptr = getelementptr i8, ptr %state, i64 $JOB_GRID
  %grid = load i64, ptr %grid_ptr
  %chunk_ptr = getelementptr i8, ptr %state, i64 $JOB_CHUNK
  %chunk = load i64, ptr %chunk_ptr
  %next = getelementptr i8, ptr %state, i64 $NEXT_ITEM
  %scratch = call ptr @scratch_of(ptr %state, i64 %worker)
  %hold = getelementptr i64, ptr %args, i64 -1                ; the packet's EXEC_CHUNK_WORD
  br label %take
take:
  %word = load volatile i64, ptr %hold
  %held = icmp slt i64 %word, 0
  br i1 %held, label %done, label %claim
claim:
  %begin = atomicrmw add ptr %next, i64 %chunk seq_cst
  %left = icmp ult i64 %begin, %grid
  br i1 %left, label %run, label %done
run:
  %want = add i64 %begin, %chunk
  %whole = icmp ult i64 %want, %grid
  %end = select i1 %whole, i64 %want, i64 %grid
  call void %kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  br label %take
done:
  ret void
}

; A worker's life: join every kernel, look for the next one a while, sleep.
define internal void @worker(ptr %state, i64 %worker) noinline {
entry:
  %generation = getelementptr i8, ptr %state, i64 $GENERATION
  %sleepers = getelementptr i8, ptr %state, i64 $SLEEPERS
  %open_ptr = getelementptr i8, ptr %state, i64 $OPEN
  %active = getelementptr i8, ptr %state, i64 $ACTIVE
  %submitter_sleeps = getelementptr i8, ptr %state, i64 $SUBMITTER_SLEEPS
  %stop_ptr = getelementptr i8, ptr %state, i64 $STOP
  %spins_ptr = getelementptr i8, ptr %state, i64 $SPINS
  br label %look
look:
  %seen = load atomic i32, ptr %generation seq_cst, align 4
  %stop = load atomic i64, ptr %stop_ptr seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %join
join:
  %joined = atomicrmw add ptr %active, i32 1 seq_cst
  %open = load atomic i64, ptr %open_ptr seq_cst, align 8
  %has_work = icmp ne i64 %open, 0
  br i1 %has_work, label %work, label %part
work:
  call void @run_chunks(ptr %state, i64 %worker)
  br label %part
part:
  %before = atomicrmw sub ptr %active, i32 1 seq_cst
  %sleeping = load atomic i64, ptr %submitter_sleeps seq_cst, align 8
  %last = icmp eq i32 %before, 1
  %waited_for = icmp ne i64 %sleeping, 0
  %call = and i1 %last, %waited_for
  br i1 %call, label %wake, label %idle
wake:
  call void @futex_wake(ptr %active)
  br label %idle
idle:
  %spins = load i64, ptr %spins_ptr
  br label %spin
spin:
  %i = phi i64 [ 0, %idle ], [ %i_next, %again ]
  %now = load atomic i32, ptr %generation seq_cst, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %look, label %tired
tired:
  %enough = icmp uge i64 %i, %spins
  br i1 %enough, label %sleep, label %again
again:
  $relax
  %i_next = add i64 %i, 1
  br label %spin
sleep:
  %asleep = atomicrmw add ptr %sleepers, i64 1 seq_cst
  call void @futex_sleep(ptr %generation, i32 %seen)
  %awake = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %look
leave:
  ret void
}
"""

PARALLEL: Final = """
; Run the items first..grid-1 with the workers; returns when all are done.
define internal void @parallel(ptr %state, ptr %kernel, ptr %args, i64 %grid, i64 %chunk,
                               i64 %first) noinline {
entry:
  %entry_ptr = getelementptr i8, ptr %state, i64 $JOB_ENTRY
  store ptr %kernel, ptr %entry_ptr
  %args_ptr = getelementptr i8, ptr %state, i64 $JOB_ARGS
  store ptr %args, ptr %args_ptr
  %grid_ptr = getelementptr i8, ptr %state, i64 $JOB_GRID
  store i64 %grid, ptr %grid_ptr
  %chunk_ptr = getelementptr i8, ptr %state, i64 $JOB_CHUNK
  store i64 %chunk, ptr %chunk_ptr
  %next = getelementptr i8, ptr %state, i64 $NEXT_ITEM
  store atomic i64 %first, ptr %next seq_cst, align 8
  %open_ptr = getelementptr i8, ptr %state, i64 $OPEN
  store atomic i64 1, ptr %open_ptr seq_cst, align 8
  %generation = getelementptr i8, ptr %state, i64 $GENERATION
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %sleepers = getelementptr i8, ptr %state, i64 $SLEEPERS
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  call void @futex_wake(ptr %generation)
  br label %work
work:
  call void @run_chunks(ptr %state, i64 0)
  store atomic i64 0, ptr %open_ptr seq_cst, align 8
  %active = getelementptr i8, ptr %state, i64 $ACTIVE
  %submitter_sleeps = getelementptr i8, ptr %state, i64 $SUBMITTER_SLEEPS
  br label %spin
spin:
  %i = phi i64 [ 0, %work ], [ %i_next, %again ]
  %busy = load atomic i32, ptr %active seq_cst, align 4
  %idle = icmp eq i32 %busy, 0
  br i1 %idle, label %done, label %tired
tired:
  %enough = icmp uge i64 %i, 2000
  br i1 %enough, label %announce, label %again
again:
  $relax
  %i_next = add i64 %i, 1
  br label %spin
announce:
  store atomic i64 1, ptr %submitter_sleeps seq_cst, align 8
  br label %sleep
sleep:
  %still = load atomic i32, ptr %active seq_cst, align 4
  %left = icmp eq i32 %still, 0
  br i1 %left, label %awake, label %doze
doze:
  call void @futex_sleep(ptr %active, i32 %still)
  br label %sleep
awake:
  store atomic i64 0, ptr %submitter_sleeps seq_cst, align 8
  br label %done
done:
  ret void
}

; Spread one kernel: with chunk 0 the first 1/64 of the items is timed, and a kernel that is too
; short to be worth a wake-up is finished right here.
define internal void @spread(ptr %state, ptr %kernel, ptr %args, i64 %grid, i64 %asked,
                             i64 %threads) noinline {
entry:
  %automatic = icmp eq i64 %asked, 0
  br i1 %automatic, label %guess, label %asked_for
asked_for:
  call void @parallel(ptr %state, ptr %kernel, ptr %args, i64 %grid, i64 %asked, i64 0)
  ret void
guess:
  %parts = mul i64 %threads, 4
  %each = udiv i64 %grid, %parts
  %some = icmp ne i64 %each, 0
  %chunk = select i1 %some, i64 %each, i64 1
  %trial = lshr i64 %grid, $trial_shift
  %can_try = icmp ne i64 %trial, 0
  br i1 %can_try, label %try, label %share
try:
  %start_ns = call i64 @now_ns()
  %scratch = call ptr @scratch_of(ptr %state, i64 0)
  call void %kernel(ptr %args, i64 0, i64 %trial, ptr %scratch)
  %end_ns = call i64 @now_ns()
  %took = sub i64 %end_ns, %start_ns
  %estimate = shl i64 %took, $trial_shift
  %short = icmp ult i64 %estimate, $worth_ns
  br i1 %short, label %finish, label %share
finish:
  call void %kernel(ptr %args, i64 %trial, i64 %grid, ptr %scratch)
  ret void
share:
  %first = phi i64 [ 0, %guess ], [ %trial, %try ]
  call void @parallel(ptr %state, ptr %kernel, ptr %args, i64 %grid, i64 %chunk, i64 %first)
  ret void
}
"""

MAIN: Final = """
define i64 @command_processor(ptr %state, ptr %words, i64 %n) {
entry:
  %no_words = icmp eq ptr %words, null
  br i1 %no_words, label %become_worker, label %prepare
become_worker:
  call void @worker(ptr %state, i64 %n)
  ret i64 0
prepare:
  %threads_ptr = getelementptr i8, ptr %state, i64 $THREADS
  %threads = load i64, ptr %threads_ptr
  %alone = icmp ult i64 %threads, 2
  br label %next
next:
  %at = phi i64 [ 0, %prepare ], [ %following, %advance ]
  %more = icmp ult i64 %at, %n
  br i1 %more, label %fetch, label %stop
fetch:
  %packet = getelementptr i64, ptr %words, i64 %at
  %header = load i64, ptr %packet
  %opcode = and i64 %header, $opcode_mask
  %length = lshr i64 %header, $length_shift
  %following = add i64 %at, %length
  %p1 = getelementptr i64, ptr %packet, i64 1
  %p2 = getelementptr i64, ptr %packet, i64 2
  %p3 = getelementptr i64, ptr %packet, i64 3
  %p4 = getelementptr i64, ptr %packet, i64 4
  %room = sub i64 %n, %at
  %others = sub i64 %length, 1                                ; of length 0: more than any room
  %sound = icmp ult i64 %others, %room
  br i1 %sound, label %dispatch, label %stop
dispatch:
  switch i64 %opcode, label %stop [
    i64 $EXEC, label %exec
    i64 $COPY, label %copy
    i64 $WAIT, label %wait
    i64 $SIGNAL, label %signal
    i64 $TIMESTAMP, label %timestamp
    i64 $BARRIER, label %advance
  ]

exec:
  %kernel = load ptr, ptr %p1
  %grid = load i64, ptr %p2
  %chunk = load i64, ptr %p3
  %held = icmp slt i64 %chunk, 0                              ; HOLD
  br i1 %held, label %stop, label %allowed
allowed:
  %one_chunk = icmp ule i64 %grid, %chunk
  %one_item = icmp ult i64 %grid, 2
  %small = or i1 %one_chunk, %one_item
  %automatic = icmp eq i64 %chunk, 0
  %whole = and i1 %alone, %automatic
  %here = or i1 %small, %whole
  br i1 %here, label %run, label %share
run:
  %scratch_ptr = getelementptr i8, ptr %state, i64 $SCRATCH_BASE
  %scratch = load ptr, ptr %scratch_ptr
  call void %kernel(ptr %p4, i64 0, i64 %grid, ptr %scratch)
  br label %ran
share:
  call void @spread(ptr %state, ptr %kernel, ptr %p4, i64 %grid, i64 %chunk, i64 %threads)
  br label %ran
ran:
  %word = load volatile i64, ptr %p3
  %halted = icmp slt i64 %word, 0
  br i1 %halted, label %stop, label %advance

copy:
  %dst = load ptr, ptr %p1
  %src = load ptr, ptr %p2
  %nbytes = load i64, ptr %p3
  %copied = call ptr @memmove(ptr %dst, ptr %src, i64 %nbytes)
  br label %advance

wait:
  %awaited = load ptr, ptr %p1
  %target = load i64, ptr %p2
  %value = load atomic i64, ptr %awaited seq_cst, align 8
  %reached = icmp uge i64 %value, %target
  br i1 %reached, label %advance, label %stop

signal:
  %signalled = load ptr, ptr %p1
  %new = load i64, ptr %p2
  %time_ptr = getelementptr i8, ptr %signalled, i64 $SIGNAL_TIME_OFF
  %signal_ns = call i64 @now_ns()
  %old = load atomic i64, ptr %signalled seq_cst, align 8
  %grows = icmp ugt i64 %new, %old
  br i1 %grows, label %set, label %advance
set:
  store i64 %signal_ns, ptr %time_ptr
  %was = atomicrmw umax ptr %signalled, i64 %new seq_cst
  %waiters_ptr = getelementptr i8, ptr %signalled, i64 $SIGNAL_WAITERS_OFF
  %waiters = load atomic i64, ptr %waiters_ptr seq_cst, align 8
  %watched = icmp ne i64 %waiters, 0
  br i1 %watched, label %wake, label %advance
wake:
  call void @futex_wake(ptr %signalled)
  br label %advance

timestamp:
  %stamped = load ptr, ptr %p1
  %stamp_ptr = getelementptr i8, ptr %stamped, i64 $SIGNAL_TIME_OFF
  %ns = call i64 @now_ns()
  store i64 %ns, ptr %stamp_ptr
  br label %advance

advance:
  br label %next
stop:
  ret i64 %at
}
"""

TEXT: Final = DECLARATIONS + CHUNKS + PARALLEL + MAIN
