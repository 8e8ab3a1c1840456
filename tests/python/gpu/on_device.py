"""HEDDLE_TEST_DEVICE=gpu(0): the default device of the tests is that device, and values are copied to the CPU when NumPy reads them.

NDArray.numpy and __array__ copy. Nothing else differs. Threads that tests start have the CPU as their default device."""

import os

import heddle

DEVICE = os.environ.get("HEDDLE_TEST_DEVICE", "")

# Tests of memory that the CPU shares, of which device is the default one, of threads, which have a default device of their own, and
# of errors that data cause, after which an op on a GPU has written the elements without an error, and of the CPU's roundings.
OF_THE_CPU = {
    "test_an_op_uses_the_memory_of_arrays_that_it_declared",
    "test_attributes",
    "test_copies",
    "test_dlpack_capsules",
    "test_dlpack_lends_the_same_memory",
    "test_dlpack_of_our_own_memory_keeps_the_var",
    "test_dlpack_read_only",
    "test_dtypes_and_devices_equal_what_stands_for_them",
    "test_memory_of_a_leaf_is_read_only",
    "test_numpy_shares_memory",
    "test_orders_that_the_buffer_protocol_asks_for",
    "test_the_page_counts_what_passes",
    "test_threads_call_one_captured_step",
    "test_what_an_op_refuses_leaves_the_target_as_it_was",
    "test_wrong_gradients",
}


def install():
    """Changes the package for the rest of the process."""
    heddle.set_default_device(DEVICE)
    numpy, array = heddle.NDArray.numpy, heddle.NDArray.__array__
    heddle.NDArray.numpy = lambda self, copy=False: numpy(self.detach().to("cpu") if self.device.kind == "gpu" else self, copy)
    heddle.NDArray.__array__ = lambda self, *args, **kwargs: array(
        self.detach().to("cpu") if self.device.kind == "gpu" else self, *args, **kwargs
    )


if DEVICE:
    install()
