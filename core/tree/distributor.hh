#pragma once
// Distributor: one per client host. It starts the host's queriers as child processes, takes queries
// from its parent (the controller or another distributor) under mutual TLS and gives each to the
// querier of its source. It may feed further distributors.
//
// Blocks that come before Start are kept (bounded by the credit we gave) so that the heavy sources
// of the first window can be placed; after Start they pass straight through.

#include "core/tree/fanout.hh"
#include "core/tree/host.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace reprise::tree {

struct DistributorOptions {
    std::string run;
    std::string name; ///< host name in the experiment
    Endpoint listen;
    std::string results = ".";
    unsigned queriers = 0;                      ///< 0: one a processor, unless it feeds others
    std::vector<Peer> feeds;                    ///< further distributors
    std::vector<unsigned> cpus;                 ///< processors for the queriers in turn; empty: any
    std::vector<std::string> querier_arguments; ///< passed on: {"--source-prefix", "10.0.0.0/8"}
};

class Distributor {
public:
    /// `host` must outlive it. Throws where it cannot start.
    Distributor(DistributorOptions options, Host& host);

    /// Starts the queriers, serves one parent to the end of the run; returns the exit status.
    int run();

private:
    void return_credit(const Credit& credit);
    void add_children();
    void listen();
    void welcome(std::unique_ptr<Link> parent);
    void refuse_parent(const std::string& because);
    void note_refusal(const std::string& peer, const std::string& because);
    void on_lost(const Child& child);
    void on_parent_frame(wire::Frame& frame);
    void on_block(Bytes records);
    void on_start(const wire::Start& start);
    void tell_parent_abort(const std::string& because);
    void stop(const std::string& because);
    void note_unclean(const std::string& because);
    void tick();
    void on_over();
    [[nodiscard]] wire::Finished compile_reports();
    int finish();

    DistributorOptions options_;
    Host& host_;
    Fanout fanout_;
    FirstWindow staged_;
    std::unique_ptr<Timer> tick_;
    std::unique_ptr<Timer> flush_;
    std::unique_ptr<Timer> farewell_;
    std::vector<pid_t> pids_; ///< of the first children of fanout_, in order
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<Link> parent_;
    /// Kept a while: no link is destroyed in its own handler.
    std::vector<std::unique_ptr<Link>> gone_;
    Credit credit_;             ///< not yet returned to the parent
    std::uint64_t refused_ = 0; ///< peers
    bool listened_ = false;     ///< the queriers are ready
    bool set_up_ = false;
    bool started_ = false;
    Beat beat_;
    std::string unclean_; ///< first reason of our own
};

} // namespace reprise::tree
