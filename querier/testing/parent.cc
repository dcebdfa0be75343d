#include "querier/testing/parent.hh"

#include "core/base/error.hh"
#include "core/wire/counts.hh"
#include "core/wire/frame.hh"
#include "querier/testing/messages.hh"

#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <poll.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <stdlib.h> // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kControlFd = 3;
constexpr Nanoseconds kProbeEvery = 300 * kMillisecond;

void limit(__rlimit_resource what, std::uint64_t value) {
    if (value != 0) {
        const rlimit limits{.rlim_cur = value, .rlim_max = value};
        setrlimit(what, &limits);
    }
}

[[noreturn]] void become_querier(int control, const Limits& limits, std::vector<char*> argv) {
    limit(RLIMIT_NOFILE, limits.descriptors);
    limit(RLIMIT_FSIZE, limits.file_size);
    if (control == kControlFd) {
        fcntl(control, F_SETFD, 0);
    } else {
        dup2(control, kControlFd);
    }
    execv(REPRISE_QUERIER, argv.data());
    _exit(127);
}

} // namespace

ScratchFolder::ScratchFolder() {
    const char* base = getenv("TMPDIR");
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/reprise-querier-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
        throw SystemError("mkdtemp " + path_);
    }
    std::filesystem::permissions(path_, std::filesystem::perms::all);
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

Parent::Parent(const std::string& results, const Limits& limits,
               const std::vector<std::string>& arguments)
    : results_(results) {
    std::array<int, 2> pair{};
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), "socketpair");
    control_ = FileDescriptor(pair[0]);
    const FileDescriptor theirs(pair[1]);
    std::vector<std::string> words{"reprise-querier", "query",    "--control-fd", "3",
                                   "--name",          "here",     "--index",      "0",
                                   "--run-id",        "test-run", "--results",    results};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    pid_ = check(fork(), "fork");
    if (pid_ == 0) {
        become_querier(theirs.get(), limits, argv);
    }
    if (!pump_until([this] { return hello_.credit() > 0; })) {
        throw Error("the querier said no Hello");
    }
}

Parent::~Parent() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

void set(wire::Options& options, const std::string& name, const std::string& value) {
    (*options.mutable_settings())["replay." + name] = value;
}

wire::Options Parent::options() {
    wire::Options options;
    options.set_server_v4("127.0.0.1:5300");
    options.set_server_v6("[::1]:5300");
    for (const auto& [key, value] : {std::pair("timeout_s", "1"),
                                     {"idle_timeout_s", "10"},
                                     {"in_flight", "65536"},
                                     {"max_lateness_s", "20"},
                                     {"answers", "true"}}) {
        set(options, key, value);
    }
    return options;
}

void Parent::setup(const wire::Options& options) {
    wire::Frame frame;
    frame.mutable_setup()->set_protocol(kProtocolVersion);
    frame.mutable_setup()->set_run("test-run");
    *frame.mutable_setup()->mutable_options() = options;
    send(frame);
}

void Parent::start(Nanoseconds delay) {
    wire::Frame frame;
    const ClockPair now = realtime_pair();
    frame.mutable_start()->set_start_mono_ns(now.monotonic + delay);
    frame.mutable_start()->set_start_real_ns(now.realtime + delay);
    frame.mutable_start()->set_trace_first_ns(kTraceFirst);
    send(frame);
}

void Parent::give(const std::vector<Query>& queries) {
    wire::Frame frame;
    wire::Block* block = frame.mutable_block();
    for (const Query& query : queries) {
        const size_t before = block->records().size();
        append_record(*block->mutable_records(), query);
        block->set_count(block->count() + 1);
        given_ += cost_of(block->records().size() - before);
        if (block->count() == kBlockRecords || block->records().size() > kBlockBytes) {
            send(frame);
            frame.Clear();
            block = frame.mutable_block();
        }
    }
    if (block->count() > 0) {
        send(frame);
    }
}

void Parent::end_of_trace() {
    wire::Frame frame;
    frame.mutable_end()->set_queries(given_.records);
    send(frame);
}

void Parent::abort(const std::string& because) {
    wire::Frame frame;
    frame.mutable_abort()->set_because(because);
    send(frame);
}

void Parent::stop_process() const {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
}

void Parent::continue_process() const { kill(pid_, SIGCONT); }

void Parent::send(const wire::Frame& frame) {
    const std::string bytes = encode_frame(frame);
    size_t sent = 0;
    while (sent < bytes.size()) {
        const ssize_t part =
            ::send(control_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (part < 0) {
            return; // the querier is gone; what it said last is read by serve()
        }
        sent += static_cast<size_t>(part);
    }
}

void Parent::probe() {
    const Nanoseconds now = SteadyClock::now();
    if (silent_ || now < next_probe_) {
        return;
    }
    next_probe_ = now + kProbeEvery;
    wire::Frame frame;
    frame.mutable_probe()->set_sent_mono_ns(now);
    send(frame);
}

bool Parent::serve(int wait_ms) {
    probe();
    pollfd waiting{.fd = control_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, wait_ms) <= 0) {
        return true;
    }
    std::array<std::uint8_t, 65536> buffer{};
    const ssize_t got = ::recv(control_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
        return false;
    }
    reader_.feed({buffer.data(), static_cast<size_t>(got)});
    wire::Frame frame;
    while (reader_.next(frame) == FrameReader::Result::kFrame) {
        take(frame);
    }
    return true;
}

void Parent::take(const wire::Frame& frame) {
    if (frame.has_hello()) {
        hello_ = frame.hello();
    } else if (frame.has_status()) {
        counts_ = read_counts(frame.status().counts());
    } else if (frame.has_credit()) {
        credit_ += {.records = frame.credit().queries(), .bytes = frame.credit().bytes()};
    } else if (frame.has_reply()) {
        ++clock_replies_;
    } else if (frame.has_abort()) {
        aborted_ = frame.abort().because();
    } else if (frame.has_finished()) {
        report_ = frame.finished().reports(0);
        reported_ = true;
    }
}

bool Parent::pump_until(const std::function<bool()>& done, Nanoseconds bound) {
    const Nanoseconds limit = SteadyClock::now() + bound;
    while (!done()) {
        if (SteadyClock::now() > limit || !serve(20)) {
            return done();
        }
    }
    return true;
}

int Parent::finish(Nanoseconds bound) {
    const Nanoseconds limit = SteadyClock::now() + bound;
    if (control_.valid()) {
        while (serve(20) && SteadyClock::now() < limit) {
        }
    }
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
        if (SteadyClock::now() > limit) {
            return -1;
        }
        usleep(1000);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace reprise::querier::testing
