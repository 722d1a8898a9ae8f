// A program from outside: no library, no header, nothing but the interface of rCore-Tutorial-v3. Its test compiles it with clang.
//
// It prints its arguments, copies a message through a pipe to a child, keeps it in a file if there is a disk, and ends with 42.

typedef unsigned long word;

static long call(long number, long a, long b, long c) {
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

enum { OPEN = 56, CLOSE = 57, PIPE = 59, READ = 63, WRITE = 64, EXIT = 93, YIELD = 124, SBRK = 214, FORK = 220, WAITPID = 260 };
enum { WRONLY = 1, CREATE = 1 << 9, STILL_RUNNING = -2 };

static word length(const char *text) {
    word count = 0;
    while (text[count]) count++;
    return count;
}

static void print(const char *text) { call(WRITE, 1, (long)text, (long)length(text)); }

static void fail(const char *what) {
    print("outside: wrong: ");
    print(what);
    print("\n");
    call(EXIT, 1, 0, 0);
}

static const char message[] = "through a pipe";
static char room[64];

static void child(const word *ends) {
    call(CLOSE, (long)ends[1], 0, 0);
    long count = call(READ, (long)ends[0], (long)room, sizeof room);
    if (count != sizeof message - 1) fail("the pipe's bytes");
    for (long at = 0; at < count; at++)
        if (room[at] != message[at]) fail("the pipe's text");
    call(EXIT, 7, 0, 0);
}

static void keep(void) {
    long file = call(OPEN, (long)"outside.txt", WRONLY | CREATE, 0);
    if (file < 0) {
        print("no disk\n");
        return;
    }
    if (call(WRITE, file, (long)message, sizeof message - 1) != sizeof message - 1) fail("write");
    if (call(CLOSE, file, 0, 0) != 0) fail("close");
    file = call(OPEN, (long)"outside.txt", 0, 0);
    if (call(READ, file, (long)room, sizeof room) != sizeof message - 1) fail("read");
    print("kept\n");
}

__attribute__((section(".text.entry"))) void _start(long count, const char **arguments) {
    for (long at = 0; at < count; at++) {
        print(arguments[at]);
        print(at + 1 < count ? " " : "\n");
    }
    word ends[2];
    if (call(PIPE, (long)ends, 0, 0) != 0) fail("pipe");
    if (call(FORK, 0, 0, 0) == 0) child(ends);
    call(WRITE, (long)ends[1], (long)message, sizeof message - 1);
    call(CLOSE, (long)ends[1], 0, 0);
    int code = 0;
    while (call(WAITPID, -1, (long)&code, 0) == STILL_RUNNING) call(YIELD, 0, 0, 0);
    if (code != 7) fail("the child's code");
    char *heap = (char *)call(SBRK, 10000, 0, 0);
    heap[9999] = 1;
    keep();
    call(EXIT, 42, 0, 0);
}
