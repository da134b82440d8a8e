"""Papers that more than one mechanism rests on."""

from __future__ import annotations

from adumbra.core.mechanism import Reference

__all__ = ["ANALYZE_GAUSS", "LIP_AND_LOP"]

ANALYZE_GAUSS = Reference(
    "Dwork, Talwar, Thakurta, Zhang (2014), Analyze Gauss, STOC",
    "@inproceedings{dwork2014analyze, title={Analyze {Gauss}: Optimal Bounds for Privacy-Preserving Principal "
    "Component Analysis}, author={Dwork, Cynthia and Talwar, Kunal and Thakurta, Abhradeep and Zhang, Li}, "
    "booktitle={STOC}, year={2014}}",
)
LIP_AND_LOP = Reference(
    "Xu, Yang, Bai (2019), Laplace Input and Output Perturbation for Differentially Private Principal Components "
    "Analysis, Security and Communication Networks",
    "@article{xu2019laplace, title={Laplace Input and Output Perturbation for Differentially Private Principal "
    "Components Analysis}, author={Xu, Yahong and Yang, Geng and Bai, Shuangjie}, journal={Security and "
    "Communication Networks}, year={2019}}",
)
