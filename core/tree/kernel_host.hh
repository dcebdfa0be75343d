#pragma once
// The host as the kernel gives it: a loop of libevent, TCP with mutual TLS, processes. The loop
// uses precise timers and no cached time: libevent's defaults are as coarse as the kernel's tick
// (4 ms). TLS 1.3 has a certificate authority made for one run: a peer that it did not sign is
// refused.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/base/openssl.hh"
#include "core/tree/host.hh"

#include <functional>
#include <memory>
#include <string>
#include <vector>

struct event_base;

namespace reprise::tree {

struct TlsFiles {
    std::string certificate; ///< PEM
    std::string key;         ///< PEM
    std::string authority;   ///< PEM; the only one trusted
};

class KernelHost final : public Host {
public:
    /// For links over socket pairs only.
    KernelHost();

    /// Throws UsageError naming the file that is wrong.
    explicit KernelHost(const TlsFiles& files);

    [[nodiscard]] event_base* base() const { return base_.get(); }

    /// One end of a socket pair; up at once.
    std::unique_ptr<Link> local(FileDescriptor socket);

    [[nodiscard]] const Clock& clock() const override { return system_clock(); }

    [[nodiscard]] wire::Hello facts() const override;
    std::unique_ptr<Timer> timer(Nanoseconds period, std::function<void()> action) override;
    std::unique_ptr<Link> connect(const Endpoint& peer) override;
    std::unique_ptr<Listener> listen(const Endpoint& where, Listener::Handler handler) override;
    Child start(std::vector<std::string> arguments) override;
    void signal(pid_t child, int number) override;
    std::string reap(pid_t child, Nanoseconds until) override;
    void on_stop(std::function<void(const std::string&)> action) override;
    void run() override;
    void stop() override;

private:
    std::unique_ptr<event_base, void (*)(event_base*)> base_;
    TlsContext tls_;
    std::vector<std::unique_ptr<Timer>> signals_;
};

} // namespace reprise::tree
