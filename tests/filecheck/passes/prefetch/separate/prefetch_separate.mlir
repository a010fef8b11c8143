// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=256},prefetch{what=rows loop=bag ahead=64 lines=4 locality=2 separate=bag},prefetch{what=rows loop=bag ahead=16 lines=4 locality=3}"

// The far prefetches go to a loop of their own; the near ones stay.
// CHECK: gather.loop indices(%i
// CHECK: gather.loop ordered prefetch_bag(%k) = %{{.*}} to %n_bag step %{{.*}} {
// CHECK: memref.load %bags_run
// CHECK-COUNT-4: memref.prefetch %data[%{{.*}}, %{{.*}}], read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop ordered bag(%k{{.*}}) = %{{.*}} to %n_bag step %{{.*}} {
// CHECK-COUNT-4: memref.prefetch %data[%{{.*}}, %{{.*}}], read, locality<3>, data
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<900x64xf32>, %indices: tensor<70x9xi64>) -> tensor<70x64xf32> {
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<900x64xf32>, tensor<70x9xi64> -> tensor<70x64xf32>
  func.return %r : tensor<70x64xf32>
}
