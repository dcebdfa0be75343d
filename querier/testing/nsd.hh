#pragma once
#include "querier/testing/parent.hh"

#include <string>
#include <sys/types.h>

namespace reprise::querier::testing {

/// A real NSD on loopback, port 5300, with the small zone "example.": names a.example. to
/// z.example. have A records.
class Nsd {
public:
    struct Settings {
        int tcp_timeout = 30;    ///< seconds a connection may be idle
        int tcp_query_count = 0; ///< queries a connection may carry; 0 = any number
    };

    /// Starts it and waits until it answers over UDP and TCP. Throws where it does not.
    explicit Nsd(const Settings& settings);
    ~Nsd();
    Nsd(const Nsd&) = delete;
    Nsd& operator=(const Nsd&) = delete;

    /// Whether this machine has NSD.
    static bool installed();

    /// Ends, stops or continues the server's whole process group.
    void kill();
    void stop() const;
    void go_on() const;

private:
    void configure(const Settings& settings);
    void wait_until_ready();

    ScratchFolder folder_;
    pid_t pid_ = -1;
};

} // namespace reprise::querier::testing
