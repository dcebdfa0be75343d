#include "core/tree/kernel_host.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/host.hh"
#include "core/tree/host.hh"
#include "core/wire/replay.pb.h"

#include <event2/event.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/prov_ssl.h>
#include <openssl/ssl.h>
#include <openssl/types.h>

#include <array>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

/// A timer, or a signal that calls each time it comes.
class Watch final : public Timer {
public:
    Watch(event_base* base, int signal_number, int what, std::function<void()> action)
        : action_(std::move(action)),
          event_(event_new(base, signal_number, static_cast<short>(what), call, this)) {}

    void again_in(Nanoseconds delay) override {
        if (delay <= 0) {
            event_active(event_.get(), EV_TIMEOUT, 0); // without a precise timer's system calls
            return;
        }
        const timeval time{.tv_sec = delay / kSecond, .tv_usec = delay % kSecond / kMicrosecond};
        event_add(event_.get(), &time);
    }

    [[nodiscard]] event* get() const { return event_.get(); }

private:
    static void call(evutil_socket_t /*fd*/, short /*what*/, void* self) {
        static_cast<Watch*>(self)->action_();
    }

    std::function<void()> action_;
    std::unique_ptr<event, decltype([](auto* one) { event_free(one); })> event_;
};

event_base* new_base() {
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    event_base* base = event_base_new_with_config(config);
    event_config_free(config);
    if (base == nullptr) {
        throw Error("libevent: no event base; is epoll available?");
    }
    event_base_priority_init(base, 3); // 1 is the default
    return base;
}

/// A connection that was freed with a callback put off until the next round lives until then: one
/// round more, which calls nobody, lets it go.
void free_base(event_base* base) {
    event_base_loop(base, EVLOOP_NONBLOCK);
    event_base_free(base);
}

constexpr Nanoseconds kKillPatience = 200 * kMillisecond;

/// Between fork and exec: only calls that are safe there. The signal mask is cleared; SIGINT and
/// SIGQUIT are the terminal's way to stop the whole group, but queriers stop when their distributor
/// says so.
[[noreturn]] void become_child(int control, std::vector<char*>& argv) {
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGQUIT, SIG_IGN);
    if (control == kControlFd) {
        fcntl(control, F_SETFD, 0);
    } else {
        dup2(control, kControlFd);
    }
    execv("/proc/self/exe", argv.data());
    _exit(127);
}

std::string ending_of(int status) {
    if (WIFSIGNALED(status)) {
        return fmt::format("querier process killed by signal {}", WTERMSIG(status));
    }
    const int code = WEXITSTATUS(status);
    return code <= 1 ? "" : fmt::format("querier process ended with status {}", code);
}

void demand(int result, const std::string& attempt) {
    if (result != 1) {
        std::array<char, 256> reason{};
        ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
        throw UsageError(attempt + ": " + reason.data() +
                         "; check the --cert, --key and --ca files");
    }
}

} // namespace

KernelHost::KernelHost() : base_(new_base(), free_base) {}

KernelHost::KernelHost(const TlsFiles& files) : KernelHost() {
    tls_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX* const context = tls_.get();
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"); // the cheapest of the safe ones
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    demand(SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()),
           "certificate " + files.certificate);
    demand(SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM),
           "key " + files.key);
    demand(SSL_CTX_check_private_key(context), "key " + files.key);
    demand(SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr),
           "certificate authority " + files.authority);
}

wire::Hello KernelHost::facts() const {
    wire::Hello hello;
    hello.set_boot_id(boot_id());
    hello.set_time_namespace(time_namespace());
    utsname name{};
    uname(&name);
    auto& facts = *hello.mutable_facts();
    facts["kernel"] = name.release;
    facts["machine"] = name.machine;
    facts["hostname"] = name.nodename;
    facts["processors"] = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
    facts["clocksource"] =
        first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    return hello;
}

std::unique_ptr<Timer> KernelHost::timer(Nanoseconds period, std::function<void()> action) {
    auto watch =
        std::make_unique<Watch>(base(), -1, period > 0 ? EV_PERSIST : 0, std::move(action));
    if (period > 0) {
        watch->again_in(period);
    } else {
        event_priority_set(watch->get(), 2); // after input that is ready
    }
    return watch;
}

Host::Child KernelHost::start(std::vector<std::string> arguments) {
    std::array<int, 2> pair{};
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), "socketpair");
    FileDescriptor ours(pair[0]);
    const FileDescriptor theirs(pair[1]);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    const pid_t pid = check(fork(), "fork a querier");
    if (pid == 0) {
        become_child(theirs.get(), argv);
    }
    return {.pid = pid, .link = local(std::move(ours))};
}

void KernelHost::signal(pid_t child, int number) { kill(child, number); }

std::string KernelHost::reap(pid_t child, Nanoseconds until) {
    int status = 0;
    bool killed = false;
    while (true) {
        const pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child && !killed) {
            return ending_of(status);
        }
        if (done != 0) {
            return killed ? "querier process did not end and was killed"
                          : "querier process vanished";
        }
        const Nanoseconds late = clock().now() - until;
        if (late > kKillPatience) {
            return "querier process cannot be killed";
        }
        if (late > 0 && !std::exchange(killed, true)) {
            kill(child, SIGKILL);
        }
        const timespec pause{.tv_sec = 0, .tv_nsec = 5 * kMillisecond};
        nanosleep(&pause, nullptr);
    }
}

void KernelHost::on_stop(std::function<void(const std::string&)> action) {
    for (const int number : {SIGINT, SIGTERM, SIGQUIT}) {
        auto watch = std::make_unique<Watch>(base(), number, EV_SIGNAL | EV_PERSIST, [=] {
            action(number == SIGINT ? "interrupted" : "terminated");
        });
        event_add(watch->get(), nullptr);
        signals_.push_back(std::move(watch));
    }
}

void KernelHost::run() { event_base_loop(base(), EVLOOP_NO_EXIT_ON_EMPTY); }

void KernelHost::stop() { event_base_loopbreak(base()); }

} // namespace reprise::tree
