#include "proxy/stateless/userspace/forwarding.hh"

#include "core/base/error.hh"
#include "core/base/host.hh"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::proxy::stateless {

namespace {

bool write(const std::string& path, const char* value) {
    std::ofstream out(path);
    out << value << std::flush;
    return out.good();
}

} // namespace

void follow_carrier(const std::string& device, const std::string& root) {
    for (const char* const version : {"ipv4", "ipv6"}) { // the host may go without one of them
        static_cast<void>(write(
            fmt::format("{}/{}/conf/{}/ignore_routes_with_linkdown", root, version, device), "1"));
    }
}

Forwarding::Forwarding(std::string interface, std::string root)
    : interface_(std::move(interface)), root_(std::move(root)) {}

std::string Forwarding::file(bool v6, Change change) const {
    if (change == Change::kAll) {
        return root_ + "/ipv6/conf/all/forwarding";
    }
    return v6 ? fmt::format("{}/ipv6/conf/{}/force_forwarding", root_, interface_)
              : fmt::format("{}/ipv4/conf/{}/forwarding", root_, interface_);
}

Change Forwarding::needed(bool v6) const {
    if (v6 && first_line(file(true, Change::kAll).c_str()) == "1") {
        return Change::kNone;
    }
    const std::string own = first_line(file(v6, Change::kInterface).c_str());
    if (own == "1") {
        return Change::kNone;
    }
    return v6 && own.empty() ? Change::kAll : Change::kInterface;
}

void Forwarding::make(bool v6, Change change) const {
    if (change == Change::kNone) {
        return;
    }
    const std::string path = file(v6, change);
    if (!write(path, "1")) {
        throw SystemError("write " + path);
    }
}

void Forwarding::undo(bool v6, Change change) const {
    if (change != Change::kNone) {
        static_cast<void>(write(file(v6, change), "0")); // the interface may be gone
    }
}

std::vector<std::string> hosts_of_routers(const std::string& root) {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root + "/ipv6/conf", error)) {
        if (first_line((entry.path() / "accept_ra").c_str()) == "1") {
            found.push_back(entry.path().filename());
        }
    }
    return found;
}

void follow_routers(const std::string& interface, bool while_forwarding, const std::string& root) {
    const std::string path = fmt::format("{}/ipv6/conf/{}/accept_ra", root, interface);
    if (first_line(path.c_str()) == (while_forwarding ? "1" : "2")) {
        static_cast<void>(write(path, while_forwarding ? "2" : "1")); // the interface may go
    }
}

} // namespace reprise::proxy::stateless
