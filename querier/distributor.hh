#pragma once
// Distributor: one per client host. It starts the host's queriers as child processes, takes queries
// from its parent (the controller or another distributor) under mutual TLS and gives each to the
// querier of its source. It may feed further distributors.
//
// Blocks that come before Start are kept (bounded by the credit we gave) so that the heavy sources
// of the first window can be placed; after Start they pass straight through.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/tree/fanout.hh"
#include "core/tree/staging.hh"
#include "core/tree/tls.hh"
#include "core/wire/credit.hh"
#include "core/wire/replay.pb.h"

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace reprise::querier {

struct DistributorOptions {
    std::string run;
    std::string name; ///< host name in the experiment
    Endpoint listen;
    tree::TlsFiles tls;
    std::string results = ".";
    unsigned queriers = 0;                      ///< 0: one a processor, unless it feeds others
    std::vector<std::string> feeds;             ///< further distributors, "[NAME=]ADDRESS:PORT"
    std::vector<unsigned> cpus;                 ///< processors for the queriers in turn; empty: any
    std::vector<std::string> querier_arguments; ///< passed on: {"--source-prefix", "10.0.0.0/8"}
};

/// Starts the queriers, serves one parent to the end of the run; returns the exit status. Throws
/// where it cannot start.
int run_distributor(const DistributorOptions& options);

/// A querier process and our end of its control socket pair.
struct QuerierProcess {
    pid_t pid = -1;
    FileDescriptor control;
};

/// Starts `reprise-querier query` as a child. Throws SystemError.
QuerierProcess start_querier(const DistributorOptions& options, unsigned index);

/// Waits for a child until `until` (CLOCK_MONOTONIC), then kills it. Returns "" for exit status 0
/// or 1, else how it ended
/// ("killed by signal 9").
std::string reap(pid_t pid, Nanoseconds until, const Clock& clock);

class Distributor {
public:
    explicit Distributor(const DistributorOptions& options);

    int run();

private:
    [[nodiscard]] Credit window() const;
    void return_credit(const Credit& credit);
    void start_queriers();
    void feed_others();
    void on_children_ready();
    void listen();
    void on_accept(FileDescriptor socket, const Endpoint& peer);
    void make_room(const IpAddress& address);
    void refuse_parent(const std::string& because);
    void note_refusal(const std::string& peer, const std::string& because);
    void welcome(tree::Link& link);
    void on_lost(const tree::Child& child);
    void greet();
    void on_parent_frame(wire::Frame& frame);
    void on_parent_down(const std::string& reason);
    void on_setup(const wire::Setup& setup);
    void on_block(Bytes records);
    void on_start(const wire::Start& start);
    void give(Bytes records);
    void tell_parent_abort(const std::string& because);
    void stop(const std::string& because);
    void note_unclean(const std::string& because);
    void tick();
    void on_over();
    [[nodiscard]] wire::Finished compile_reports();
    int finish();

    DistributorOptions options_;

    /// A peer that TLS has not verified yet.
    struct Newcomer {
        IpAddress address;
        Nanoseconds since = 0;
        std::unique_ptr<tree::Link> link;
    };

    tree::EventLoop loop_;
    tree::TlsContext tls_;
    tree::Fanout fanout_;
    tree::Watch tick_;
    tree::Watch flush_;
    tree::Watch farewell_;
    tree::Watch interrupt_;
    tree::Watch terminate_;
    tree::Watch quit_;
    std::vector<pid_t> pids_; ///< of the first children of fanout_, in order
    std::unique_ptr<tree::Listener> listener_;
    std::unique_ptr<tree::Link> parent_;
    std::vector<Newcomer> newcomers_; ///< not yet verified, the oldest first
    /// Kept a while: no link is destroyed in its own handler.
    std::vector<std::unique_ptr<tree::Link>> gone_;
    Credit credit_;             ///< not yet returned to the parent
    std::uint64_t refused_ = 0; ///< peers
    bool listened_ = false;     ///< the queriers are ready
    bool set_up_ = false;
    bool started_ = false;
    bool ended_ = false;
    tree::Staging staged_; ///< records of the first window
    Nanoseconds ticked_ = loop_.clock().now();
    std::string unclean_; ///< first reason of our own
};

} // namespace reprise::querier
